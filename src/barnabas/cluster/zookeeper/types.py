"""What goes into requests to ZooKeeper and what comes out: values of our own, so that kazoo stays in one module."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from barnabas.common.errors import ErrorCode, KafkaError

ANY_VERSION = -1
Wake: TypeAlias = Callable[[], None]


class Stat(NamedTuple):
    version: int
    """Rises with every change of the node's data, from 0."""
    czxid: int
    """The transaction that created the node: greater for whatever was created later, anywhere in ZooKeeper."""
    owner: int
    """The session that an ephemeral node lives and dies with; 0 for others."""


class Node(NamedTuple):
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


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """The node must be there with this version, or nothing of the multi happens."""

    path: str
    version: int


Operation: TypeAlias = Create | SetData | Delete | Check


class Link(Enum):
    """How the session stands, as far as we have been told."""

    CONNECTED = auto()
    SUSPENDED = auto()
    """No connection now. The session may still live: nobody can know until there is a connection again."""
    LOST = auto()
    """The session is over, and with it our ephemeral nodes."""


class ZooKeeperError(KafkaError):
    """Something that ZooKeeper said, or did not say in time."""

    answer = ErrorCode.KAFKA_STORAGE_ERROR
    """To a client whose request needed the metadata."""

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
    """No answer. The request may have been carried out, and may yet be: look before you repeat it."""

    answer = ErrorCode.REQUEST_TIMED_OUT


class SessionLostError(OutcomeUnknownError):
    """The session ended before the answer came; nothing that was still on its way will be carried out."""


class ZooKeeperUnusableError(ZooKeeperError):
    """A person has to do something: the text says what."""


class WipedZooKeeperError(ZooKeeperUnusableError):
    """ZooKeeper does not know the cluster that it coordinated."""
