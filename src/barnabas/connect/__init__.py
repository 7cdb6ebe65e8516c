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
    from barnabas.connect.control import (
        Host,
        RunningConnector,
        check_together,
        connectors_session,
        fields_by_name,
    )
    from barnabas.connect.control_files import ControlFiles, require_stopped, state_of
    from barnabas.connect.declaration import Connector, read_connector
    from barnabas.connect.positions import Positions, partition_and_offset, rows_of
    from barnabas.connect.secrets import RedactingFilter, Redaction, secrets_in
    from barnabas.connect.worker import (
        BASIC_AUTH_JAR,
        USER,
        ConnectWorker,
        WorkerSettings,
        find_libs,
        read_configs,
        running_worker,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "control": "Host RunningConnector check_together connectors_session fields_by_name",
            "control_files": "ControlFiles require_stopped state_of",
            "declaration": "Connector read_connector",
            "positions": "Positions partition_and_offset rows_of",
            "secrets": "RedactingFilter Redaction secrets_in",
            "worker": "BASIC_AUTH_JAR ConnectWorker USER WorkerSettings find_libs read_configs running_worker",
        },
    )

__all__ = [
    "BASIC_AUTH_JAR",
    "USER",
    "ConnectWorker",
    "Connector",
    "ControlFiles",
    "Host",
    "Positions",
    "RedactingFilter",
    "Redaction",
    "RunningConnector",
    "WorkerSettings",
    "check_together",
    "connectors_session",
    "fields_by_name",
    "find_libs",
    "partition_and_offset",
    "read_configs",
    "read_connector",
    "require_stopped",
    "rows_of",
    "running_worker",
    "secrets_in",
    "state_of",
]
