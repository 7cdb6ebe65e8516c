"""Data pipelines on Spark: definitions, the runner, quality rules, alarms and the template library.

The modules `connection`, `origin`, `times`, `training`, `log_lines` and `quality.letters` are imported by
pipeline folders of users. The Spark data source and sink are in `barnabas.spark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.pipelines.connection import connection_options as connection_options
    from barnabas.pipelines.connection import registry_options as registry_options
    from barnabas.pipelines.connection import security_of as security_of
    from barnabas.pipelines.connection import settings_from as settings_from
    from barnabas.pipelines.packing import NodePython as NodePython
    from barnabas.pipelines.packing import default_python as default_python
    from barnabas.pipelines.packing import pack as pack
    from barnabas.pipelines.packing import python_version as python_version
    from barnabas.pipelines.packing import submit_lines as submit_lines
    from barnabas.pipelines.packing import write_program as write_program
    from barnabas.pipelines.terminal import LiveScreen as LiveScreen
else:
    __getattr__ = lazy_exports(__name__)
