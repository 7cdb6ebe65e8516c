"""What a command says when it fails: what happened, and what to do next. Nobody wants a traceback at 3 a.m."""

from __future__ import annotations

import os
import sys

from barnabas.cli.cluster.adoption import NothingToAdoptError
from barnabas.cli.cluster.local_cluster import BrokerDidNotStartError
from barnabas.cli.tiering.stores import TierError
from barnabas.client.errors import CannotConnectError, ClientError, UnsupportedApiError
from barnabas.client.placement import NoPlanError
from barnabas.cluster.snapshots import DamagedMetadataError
from barnabas.cluster.zookeeper import NoZooKeeperError, ZooKeeperError
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.config.setting import ConfigError
from barnabas.log.dirs import FolderInUseError
from barnabas.security.authn import SecuritySettingError
from barnabas.services.ingest import IngestError
from barnabas.spark import PipelineError
from barnabas.tables import TableError
from barnabas.tiering.stores import StoreError

FAILED = 1
WRONG_USE = 2

ADVICE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`barnabas topics list` shows what there is.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "`barnabas topics describe NAME` shows it; `topics create --if-not-exists` "
    "does not mind.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "`barnabas topics describe NAME` shows where its partitions begin and end.",
    ErrorCode.MESSAGE_TOO_LARGE: "Raise the topic's max.message.bytes, or send smaller records.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "`barnabas cluster describe` shows how many brokers there are.",
    ErrorCode.POLICY_VIOLATION: "Records of a compacted topic can only be removed if its cleanup.policy contains "
    "delete too.",
    ErrorCode.SECURITY_DISABLED: "ACLs count only with an authorizer: set authorizer.class.name and super.users of the "
    "brokers, and start them again.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Log in as somebody who may do this (--command-config), or ask one of the "
    "brokers' super.users.",
    ErrorCode.KAFKA_STORAGE_ERROR: "The broker cannot use its disk; its log says why (full? damaged?).",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Too few replicas are in sync; `barnabas topics describe NAME` shows which.",
}

_OF_SPARK = {"pyspark", "py4j", "pandas", "yaml"}
_OF_TABLES = {"pyarrow", "numba", "duckdb", "polars", "fastavro"}

# Their texts say everything.
_PLAIN = (
    NoZooKeeperError,
    ZooKeeperError,
    BrokerDidNotStartError,
    NothingToAdoptError,
    NoPlanError,
    DamagedMetadataError,
    PipelineError,
    TierError,
    TableError,
    IngestError,
)


def explain(error: Exception) -> tuple[str, int] | None:
    """The text and the exit code for an expected error; None for a bug."""
    if isinstance(error, ConfigError | SecuritySettingError):
        return str(error), WRONG_USE
    if isinstance(error, CannotConnectError):
        return _explain_no_connection(error), FAILED
    if isinstance(error, UnsupportedApiError):
        return f"{error}. A newer broker may know it.", FAILED
    if isinstance(error, _PLAIN):
        return str(error), FAILED
    if isinstance(error, KafkaError):
        return _explain_refusal(error), FAILED
    if isinstance(error, ClientError):
        return str(error), FAILED
    if isinstance(error, FolderInUseError):
        return f"{error}.", FAILED
    if isinstance(error, ModuleNotFoundError):
        return _explain_missing_library(error)
    if isinstance(error, OSError):
        return _explain_os_error(error), FAILED
    return None


def _explain_no_connection(error: CannotConnectError) -> str:
    return (
        f"No broker answers at {error.address}: {error.reason}.\n"
        f"Is it running? `barnabas serve --data DIR --listen {error.address.split(',')[0]}` starts one.\n"
        "Somewhere else? Say where with --bootstrap-server HOST:PORT or BARNABAS_BOOTSTRAP."
    )


def _explain_refusal(error: KafkaError) -> str:
    if isinstance(error, StoreError):  # of an object store that the command itself has asked
        return error.message
    advice = ADVICE.get(error.code)
    return f"{error}\n{advice}" if advice else str(error)


def _explain_missing_library(error: ModuleNotFoundError) -> tuple[str, int] | None:
    if error.name == "yaml" and "ingest" in sys.argv[1:2]:
        return "Agents in files need PyYAML: pip install 'barnabas[ingest]'", FAILED
    if error.name is not None and error.name.split(".")[0] in ("uvicorn", "h11"):
        return f"HTTP needs {error.name}: pip install 'barnabas[web]'", FAILED
    if error.name is not None and error.name.split(".")[0] in _OF_SPARK:
        return f"Pipelines run on Spark, and {error.name} is missing: pip install 'barnabas[spark]'", FAILED
    if error.name is not None and error.name.split(".")[0] in _OF_TABLES:
        return (
            f"Tables and pipelines need {error.name}: pip install 'barnabas[table]' or 'barnabas[spark]'",
            FAILED,
        )
    return None


def _explain_os_error(error: OSError) -> str:
    if error.filename is not None and error.errno is not None:
        return f"{error.filename}: {os.strerror(error.errno)}"
    return error.strerror or str(error)
