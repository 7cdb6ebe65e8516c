"""State at the top of the log dirs as a process sees it: every call is a question to the hub.

The calls block, in any thread, as long as the hub's disk does. They end the process if the hub has ended.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from barnabas.cluster.hub.link import encode_frame
from barnabas.cluster.hub.messages import (
    AboutLogDir,
    ClaimDir,
    DirClosed,
    LogDirAnswer,
    LossReported,
    ReadIdentity,
    ReadOffsets,
    ReadPartitions,
    ReadShutdown,
    WriteOffsets,
    WritePartitions,
)
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.log.dirs import MetaProperties
from barnabas.log.recovery import ShutdownKind

T = TypeVar("T")

_LENGTH_BYTES = 4
HUB_ENDED = 75  # exit code of a process that has lost its hub (EX_TEMPFAIL)


class NotesChannel:
    """The socket of a process for its questions, one at a time."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(True)
        self._socket = end
        self._turn = threading.Lock()
        self._decoder = msgspec.json.Decoder(LogDirAnswer)

    def ask(self, question: AboutLogDir) -> LogDirAnswer:
        """Raise OSError for a failed disk, and KafkaError for a refusal."""
        with self._turn:
            answer = self._ask(question)
        if answer.errno:
            raise OSError(answer.errno, answer.reason)
        if answer.code:
            raise KafkaError(ErrorCode(answer.code), answer.reason)
        return answer

    def _ask(self, question: AboutLogDir) -> LogDirAnswer:
        try:
            self._socket.sendall(encode_frame(question))
            length = int.from_bytes(self._receive(_LENGTH_BYTES), "big")
            return self._decoder.decode(self._receive(length))
        except ConnectionError:
            os._exit(HUB_ENDED)  # what this process writes from now on would not be noted

    def _receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            data = self._socket.recv(count - len(received))
            if not data:
                raise ConnectionResetError
            received += data
        return bytes(received)


class HubLogDirState:
    """LogDirState of a dir that the hub keeps. The hub has the lock, and removes and writes the markers."""

    def __init__(self, hub: NotesChannel, folder: str) -> None:
        self._hub = hub
        self._folder = folder

    def lock(self) -> None:
        """The hub has locked the dir. Raise OSError if it cannot use it."""
        self._hub.ask(ReadShutdown(self._folder))

    def unlock(self) -> None:
        """Nothing to do."""

    def identity(self) -> MetaProperties | None:
        identity = self._hub.ask(ReadIdentity(self._folder)).identity
        return None if identity is None else MetaProperties(*identity)

    def claim(self, cluster_id: str, node_id: int) -> MetaProperties:
        """The dir belongs to the node, whichever of its processes claims it."""
        identity = self._hub.ask(ClaimDir(self._folder, cluster_id)).identity
        assert identity is not None
        return MetaProperties(*identity)

    def last_shutdown(self, boot_id: str | None) -> ShutdownKind:
        return ShutdownKind(self._hub.ask(ReadShutdown(self._folder)).stop)

    def opened(self, boot_id: str | None) -> None:
        """Nothing to do: the hub has removed the marker before it started a process."""

    def closed(self, broker_epoch: int, partitions: Iterable[TopicPartition]) -> None:
        self._hub.ask(DirClosed(self._folder, broker_epoch, list(partitions)))

    def write_boot_id(self, boot_id: str) -> None:
        """The hub writes it when all processes have called this."""
        self._hub.ask(LossReported(self._folder))

    def read_offsets(self, name: str) -> dict[TopicPartition, int]:
        answer = self._hub.ask(ReadOffsets(self._folder, name))
        return {TopicPartition(topic, index): offset for topic, index, offset in answer.offsets}

    def write_offsets(
        self, name: str, offsets: Mapping[TopicPartition, int], removed: Iterable[TopicPartition] = ()
    ) -> None:
        entries = [(topic, index, offset) for (topic, index), offset in offsets.items()]
        self._hub.ask(WriteOffsets(self._folder, name, entries, list(removed)))

    def read_partitions(self, name: str) -> set[TopicPartition]:
        return set(self._hub.ask(ReadPartitions(self._folder, name)).partitions)

    def write_partitions(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        self._hub.ask(WritePartitions(self._folder, name, list(partitions)))
