"""Spark data source and sink, the session builder and the JVM plumbing.

Entry points: make_reader, make_stream_reader, make_batch_writer, make_stream_writer and session_builder. Only `spark`,
`connect` and `pipelines` import pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.spark.batch_log import BatchLog, compute_only, require_creation_once
    from barnabas.spark.broker_link import BrokerLink, link_to
    from barnabas.spark.client_settings import CLIENT_PREFIX, ClientSettingError
    from barnabas.spark.errors import PipelineError, SourceError, words_of
    from barnabas.spark.hadoop_files import FoundFile, HadoopFolder, local_path
    from barnabas.spark.jars import LIBRARIES, SETTING, fetch, with_libraries
    from barnabas.spark.java import jvm_of, prepare_java
    from barnabas.spark.options import OptionError, Options
    from barnabas.spark.session import session_builder
    from barnabas.spark.worker_process import begin_task
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "batch_log": "BatchLog compute_only require_creation_once",
            "broker_link": "BrokerLink link_to",
            "client_settings": "CLIENT_PREFIX ClientSettingError",
            "errors": "PipelineError SourceError words_of",
            "hadoop_files": "FoundFile HadoopFolder local_path",
            "jars": "LIBRARIES SETTING fetch with_libraries",
            "java": "jvm_of prepare_java",
            "options": "OptionError Options",
            "session": "session_builder",
            "worker_process": "begin_task",
        },
    )

__all__ = [
    "CLIENT_PREFIX",
    "LIBRARIES",
    "SETTING",
    "BatchLog",
    "BrokerLink",
    "ClientSettingError",
    "FoundFile",
    "HadoopFolder",
    "OptionError",
    "Options",
    "PipelineError",
    "SourceError",
    "begin_task",
    "compute_only",
    "fetch",
    "jvm_of",
    "link_to",
    "local_path",
    "prepare_java",
    "require_creation_once",
    "session_builder",
    "with_libraries",
    "words_of",
]
