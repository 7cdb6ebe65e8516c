"""Loads of ordinary applications: requests of several partitions, and records for which a consumer already waits.

Each is a sequence of exchanges with a broker: bytecode instructions (instructions.py) and machine instructions
(callgrind.py) are counted for one exchange.
"""

import random
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle

from benchmarks import wire

_WAIT_MS = 30_000  # longer than any round
_SUBSETS = 64
_RECORD_BYTES = 100


class SmallLoad(ABC):
    """Sends requests one after the other; each response is read before the next request."""

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.partitions = partitions
        self._batch = wire.record_batch(_RECORD_BYTES, 1)

    @contextmanager
    def connected(self, host: str, port: int, topic: str) -> Iterator[Iterator[None]]:
        """Connect; each step of the iterator is one exchange."""
        with ExitStack() as stack:
            sockets = [stack.enter_context(_connection(host, port)) for _ in range(2)]
            yield self.exchanges(topic, *sockets)

    @abstractmethod
    def exchanges(self, topic: str, first: socket.socket, second: socket.socket) -> Iterator[None]: ...


class ProduceLoad(SmallLoad):
    """One record for each of several partitions in one request; or for a random subset of them."""

    def __init__(self, name: str, partitions: int, *, in_subsets: bool = False) -> None:
        super().__init__(name, partitions)
        self._in_subsets = in_subsets

    def exchanges(self, topic: str, first: socket.socket, second: socket.socket) -> Iterator[None]:
        frames = [wire.produce_frame_of(topic, chosen, self._batch) for chosen in self._choices()]
        for frame in cycle(frames):
            first.sendall(frame)
            if wire.produce_error(topic, _response(first)):
                raise RuntimeError(f"{self.name}: the broker answered with an error")
            yield

    def _choices(self) -> Sequence[Sequence[int]]:
        every = range(self.partitions)
        if not self._in_subsets:
            return [every]
        draw = random.Random(0)
        return [draw.sample(every, draw.randint(1, self.partitions)) for _ in range(_SUBSETS)]


class LongPollLoad(SmallLoad):
    """A fetch that waits, and the record that completes it.

    With an incremental session (Java), a fetch names the partitions whose offset has changed; without one (librdkafka)
    it names all of them.
    """

    def __init__(self, name: str, partitions: int, *, has_session: bool) -> None:
        super().__init__(name, partitions)
        self._has_session = has_session

    def exchanges(self, topic: str, first: socket.socket, second: socket.socket) -> Iterator[None]:
        offsets = dict.fromkeys(range(self.partitions), 0)
        session = wire.NO_SESSION
        if self._has_session:
            first.sendall(wire.fetch_frame_of(topic, offsets, session=(0, 0)))
            session = wire.fetch_session(_response(first)), 1
        changed = {} if self._has_session else offsets
        for partition in cycle(range(self.partitions)):
            # Both may be received in one turn of the broker: epoll returns the older event first.
            first.sendall(wire.fetch_frame_of(topic, changed, max_wait_ms=_WAIT_MS, session=session))
            second.sendall(wire.produce_frame(topic, partition, self._batch))
            if wire.produce_error(topic, _response(second)) or wire.fetch_error(topic, _response(first)):
                raise RuntimeError(f"{self.name}: the broker answered with an error")
            offsets[partition] += 1
            if self._has_session:
                session, changed = (session[0], session[1] + 1), {partition: offsets[partition]}
            yield


SMALL_LOADS: tuple[SmallLoad, ...] = (
    ProduceLoad("3-partitions", 3),
    ProduceLoad("6-partitions", 6),
    ProduceLoad("subsets-of-6", 6, in_subsets=True),
    LongPollLoad("long-poll-session", 1, has_session=True),
    LongPollLoad("long-poll", 1, has_session=False),
    LongPollLoad("long-poll-session-6", 6, has_session=True),
    LongPollLoad("long-poll-6", 6, has_session=False),
)


def _connection(host: str, port: int) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _response(connection: socket.socket) -> bytes:
    """The next response, its length prefix included."""
    head = connection.recv(4, socket.MSG_WAITALL)
    return head + connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
