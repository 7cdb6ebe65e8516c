"""Types of ZooKeeper requests and results, independent of kazoo, which only kazoo_client.py imports."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from barnabas.common.errors import ErrorCode, KafkaError

ANY_VERSION = -1
Wake: TypeAlias = Callable[[], None]


class Stat(NamedTuple):
    version: int
    """Number of changes of the node's data."""
    czxid: int
    """Transaction that created the node; later transactions in the whole ensemble have greater numbers."""
    owner: int
    """Session of an ephemeral node; 0 for others."""


class ZNode(NamedTuple):
    data: bytes
    stat: Stat


class Create(NamedTuple):
    path: str
    data: bytes
    ephemeral: bool = False
    public: bool = False


class SetData(NamedTuple):
    path: str
    data: bytes
    version: int


class DeleteNode(NamedTuple):
    path: str
    version: int = ANY_VERSION


class CheckVersion(NamedTuple):
    """Condition of a multi: the node exists with this version."""

    path: str
    version: int


Operation: TypeAlias = Create | SetData | DeleteNode | CheckVersion


class SessionState(Enum):
    """Last known state of the session."""

    CONNECTED = auto()
    SUSPENDED = auto()
    """Disconnected. The session may be alive or not; that is unknown until a reconnect."""
    LOST = auto()
    """The session has ended, and its ephemeral nodes are deleted."""


class ZooKeeperError(KafkaError):
    """Error returned by ZooKeeper, or a timeout."""

    answer = ErrorCode.KAFKA_STORAGE_ERROR
    """Error code for a client whose request needed the metadata."""

    def __init__(self, message: str) -> None:
        super().__init__(self.answer, message)

    def __str__(self) -> str:
        return self.message


class NoNodeError(ZooKeeperError):
    pass


class NodeExistsError(ZooKeeperError):
    pass


class BadVersionError(ZooKeeperError):
    pass


class OutcomeUnknownError(ZooKeeperError):
    """No response. The request may have been executed, or may still be: check before a retry."""

    answer = ErrorCode.REQUEST_TIMED_OUT


class SessionLostError(OutcomeUnknownError):
    """The session ended before the response; requests in flight will not be executed any more."""


class ZooKeeperUnusableError(ZooKeeperError):
    """An operator has to act; the message says how."""


class WipedZooKeeperError(ZooKeeperUnusableError):
    """ZooKeeper no longer has this cluster."""
