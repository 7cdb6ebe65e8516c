"""Connectors: pipelines declared in YAML that move rows from a source to a sink, exactly once.

declaration   parses and validates NAME.yml without Spark; the tables SOURCES and SINKS
endpoints     the protocols of sources and sinks
sources/      topics, files, tables of databases
sinks/        topics, tables of databases, tables of files
transforms    rename, mask, filter, route, cast, drop: Spark columns
compiling     compiles a declaration to one flow of the runner
control       many connectors in one Spark: restarts, pauses, status
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.connect.control import ConnectorGroup as ConnectorGroup
    from barnabas.connect.control import RunningConnector as RunningConnector
    from barnabas.connect.control import check_together as check_together
    from barnabas.connect.control import connectors_session as connectors_session
    from barnabas.connect.control import fields_by_name as fields_by_name
    from barnabas.connect.control_files import ControlFiles as ControlFiles
    from barnabas.connect.control_files import require_stopped as require_stopped
    from barnabas.connect.control_files import state_of as state_of
    from barnabas.connect.declaration import Connector as Connector
    from barnabas.connect.declaration import read_connector as read_connector
    from barnabas.connect.positions import Positions as Positions
    from barnabas.connect.positions import partition_and_offset as partition_and_offset
    from barnabas.connect.positions import rows_of as rows_of
    from barnabas.connect.secrets import RedactingFilter as RedactingFilter
    from barnabas.connect.secrets import Redaction as Redaction
    from barnabas.connect.secrets import secrets_in as secrets_in
    from barnabas.connect.worker import BASIC_AUTH_JAR as BASIC_AUTH_JAR
    from barnabas.connect.worker import USER as USER
    from barnabas.connect.worker import ConnectWorker as ConnectWorker
    from barnabas.connect.worker import WorkerSettings as WorkerSettings
    from barnabas.connect.worker import find_libs as find_libs
    from barnabas.connect.worker import read_configs as read_configs
    from barnabas.connect.worker import running_worker as running_worker
else:
    __getattr__ = lazy_exports(__name__)
