"""Well-formed requests of maximum size: for each API, each of its arrays filled to its limit."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from barnabas.broker import main as collector
from barnabas.common.types import Uuid
from barnabas.handlers.table import HANDLERS
from barnabas.network.event_loop import DirectSelector
from barnabas.network.requests.heavy_requests import RequestBudget
from barnabas.network.requests.routes import Handler
from barnabas.protocol.schema import Field, StructType
from tests.support.server import frame

# Existing resources, by the field that names them.
KNOWN: dict[str, Any] = {
    "name": "known",
    "topic": "known",
    "topic_name": "known",
    "topics": "known",
    "topic_names": "known",
    "group_id": "group",
    "group_ids": "group",
    "groups": "group",
    "groups_names": "group",
    "coordinator_keys": "group",
    "transactional_id": "transaction",
    "transactional_ids": "transaction",
    "v3_and_below_transactional_id": "transaction",
    "resource_type": 4,
    "resource_name": "1",
    "member_id": "member",
    "session_epoch": -1,
    "min_bytes": 0,
    "max_wait_ms": 0,
    "max_wait_time_ms": 0,
    "timeout_ms": 5000,
    "num_partitions": 1,
    "replication_factor": 1,
    "replica_id": -1,
    "acks": 1,
}


class Extreme(NamedTuple):
    """One array of one request, and whether its elements name one thing that exists."""

    handler: Handler
    path: tuple[Field, ...]
    known: bool

    @property
    def label(self) -> str:
        names = ".".join(field.name for field in self.path)
        return f"{self.handler.request_class.NAME} {names}{' of what exists' if self.known else ''}"

    def frame(self, elements: int, topic_id: Uuid) -> bytes:
        if self.handler.in_turns is None:
            elements = min(elements, RequestBudget().undivided_elements)
        values = {**KNOWN, "topic_id": topic_id, "elements": elements - len(self.path) + 1}
        version = self.handler.max_version
        message = _filled(self.handler.request_class, self.path, version, values, self.known)
        return frame(message, version)


def extremes() -> Iterator[Extreme]:
    for handler in HANDLERS:
        for path in _arrays(handler.request_class, handler.max_version):
            yield Extreme(handler, path, known=False)
            yield Extreme(handler, path, known=True)


def _arrays(cls: Any, version: int) -> Iterator[tuple[Field, ...]]:
    for field in cls.FIELDS:
        if not field.present_in(version) or field.wire not in ("array", "structure"):
            continue
        if field.wire == "array":
            yield (field,)
        if isinstance(field.element, StructType):
            for inner in _arrays(field.element, version):
                yield (field, *inner)


def _filled(cls: Any, path: tuple[Field, ...], version: int, values: dict[str, Any], known: bool) -> Any:
    message = cls()
    for field in cls.FIELDS:
        is_name = field.wire in ("string", "uuid") or field.name in _NUMBERS
        if is_name and field.name in values and field.present_in(version):
            setattr(message, field.name, values[field.name])
    if path:
        field = path[0]
        last = len([each for each in path if each.wire == "array"]) == 1 and field.wire == "array"
        if field.wire == "structure":
            value = _filled(field.element, path[1:], version, values, known)
        elif last:
            value = [_element(field, version, values, known)] * values["elements"]
        else:
            value = [_filled(field.element, path[1:], version, values, known)]
        setattr(message, field.name, value)
    return message


_NUMBERS = {"resource_type", "session_epoch", "min_bytes", "max_wait_ms", "timeout_ms", "num_partitions",
            "replication_factor", "replica_id", "max_wait_time_ms", "acks"}  # fmt: skip


def _element(field: Field, version: int, values: dict[str, Any], known: bool) -> Any:
    if isinstance(field.element, StructType):
        return _filled(field.element, (), version, values, known) if known else field.element()
    if field.element == "string":
        return values.get(field.name, "known") if known else ""
    if field.element == "uuid":
        return values["topic_id"] if known else bytes(16)
    return 0


class FullCollections:
    """CPU seconds of each thread in full garbage collections, which scan the objects of all earlier tests."""

    def __init__(self) -> None:
        self.seconds: defaultdict[int, float] = defaultdict(float)

    def note(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 2:
            self.seconds[threading.get_ident()] += time.thread_time() * (-1 if phase == "start" else 1)


full_collections = FullCollections()


@contextmanager
def sparing() -> Iterator[None]:
    """The collector as it is in a process that is a broker."""
    before = gc.get_threshold()
    collector.collect_rarely()
    collector.keep_all()
    gc.callbacks.append(full_collections.note)
    try:
        yield
    finally:
        gc.callbacks.remove(full_collections.note)
        gc.set_threshold(*before)
        gc.unfreeze()


class Steps:
    """The longest step of the loop's thread since `restart`, in seconds of its CPU, without full collections."""

    def __init__(self, patch: Any) -> None:
        self.longest = 0.0
        self.what = ""
        run, watch = asyncio.Handle._run, DirectSelector.watch

        def timed_run(handle: asyncio.Handle) -> None:
            self._measure(lambda: run(handle), handle)

        def timed_watch(selector: DirectSelector, file: Any, **callbacks: Callable[[], object]) -> None:
            timed = {name: partial(self._measure, call, call) for name, call in callbacks.items()}
            watch(selector, file, **timed)

        patch.setattr(asyncio.Handle, "_run", timed_run)
        patch.setattr(DirectSelector, "watch", timed_watch)  # it calls readers and writers without a handle

    def _measure(self, call: Callable[[], object], what: object) -> None:
        thread = threading.get_ident()
        began = time.thread_time() - full_collections.seconds[thread]
        call()
        taken = time.thread_time() - full_collections.seconds[thread] - began
        if taken > self.longest:
            self.longest, self.what = taken, repr(what)[:200]

    def restart(self) -> None:
        self.longest, self.what = 0.0, ""


def ask(port: int, request: bytes, timeout: float = 60.0) -> bytes | None:
    """The answer to a request, or None when the broker closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        try:
            connection.sendall(request)
            start = _receive(connection, 4)
            return _receive(connection, struct.unpack(">i", start)[0]) if start else None
        except ConnectionError:
            return None


def _receive(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        some = connection.recv(min(count - len(received), 1 << 20))
        if not some:
            return b""
        received += some
    return bytes(received)
