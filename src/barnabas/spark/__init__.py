"""Spark data source and sink, the session builder and the JVM plumbing.

Entry points: make_reader, make_stream_reader, make_batch_writer, make_stream_writer and session_builder. Only `spark`,
`connect` and `pipelines` import pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.spark.batch_log import BatchLog as BatchLog
    from barnabas.spark.batch_log import compute_only as compute_only
    from barnabas.spark.batch_log import require_creation_once as require_creation_once
    from barnabas.spark.broker_link import BrokerLink as BrokerLink
    from barnabas.spark.broker_link import close_link as close_link
    from barnabas.spark.broker_link import link_to as link_to
    from barnabas.spark.client_settings import CLIENT_PREFIX as CLIENT_PREFIX
    from barnabas.spark.client_settings import ClientSettingError as ClientSettingError
    from barnabas.spark.deployment import Deployment as Deployment
    from barnabas.spark.deployment import deployment_of as deployment_of
    from barnabas.spark.errors import PipelineError as PipelineError
    from barnabas.spark.errors import SourceError as SourceError
    from barnabas.spark.errors import own_sentence as own_sentence
    from barnabas.spark.errors import words_of as words_of
    from barnabas.spark.hadoop_files import FoundFile as FoundFile
    from barnabas.spark.hadoop_files import HadoopFolder as HadoopFolder
    from barnabas.spark.hadoop_files import local_path as local_path
    from barnabas.spark.jars import LIBRARIES as LIBRARIES
    from barnabas.spark.jars import SETTING as SETTING
    from barnabas.spark.jars import fetch as fetch
    from barnabas.spark.jars import with_libraries as with_libraries
    from barnabas.spark.java import jvm_of as jvm_of
    from barnabas.spark.java import prepare_java as prepare_java
    from barnabas.spark.options import OptionError as OptionError
    from barnabas.spark.options import Options as Options
    from barnabas.spark.session import session_builder as session_builder
    from barnabas.spark.worker_check import check_workers as check_workers
    from barnabas.spark.worker_process import begin_task as begin_task
else:
    __getattr__ = lazy_exports(__name__)
