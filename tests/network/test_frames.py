"""Frame decoding without a socket."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.clock import ManualClock
from barnabas.network.frames import ANSWERS, CLOSED, MEMORY, RefusedFrameError, RequestFrames
from barnabas.network.limits import REQUESTS_PER_TURN
from barnabas.network.memory_pool import MemoryPool
from tests.support.server import heartbeat_frame

SHARED_BYTES = 4096
ADDRESS = "10.0.0.1"


class Client:
    """Feeds bytes to frames like a socket, and collects requests."""

    def __init__(self, memory: MemoryPool | None = None, longest: int = 1 << 20) -> None:
        self.memory = memory or MemoryPool(1 << 20)
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.clock = ManualClock()
        self.requests: list[bytes] = []
        self.frames: RequestFrames[Client] = RequestFrames(
            Client.handle, self.shared, self.memory, ADDRESS, self.clock.monotonic, self.granted
        )
        self.frames.allow(longest, "socket.request.max.bytes")
        self.closes_with: bytes | None = None

    def handle(
        self,
        buffer: memoryview,
        position: int,
        end: int,
        route: int,
        correlation_id: int,
        client_id_length: int,
    ) -> None:
        assert bytes(buffer[position : position + client_id_length]) == b"test"
        start = struct.pack(">iih", route, correlation_id, client_id_length)
        self.requests.append(
            struct.pack(">i", len(start) + end - position) + start + bytes(buffer[position:end])
        )
        if self.requests[-1] == self.closes_with:
            self.frames.close()

    def granted(self, end: int) -> None:
        self.frames.grant(end)

    def deliver(self, data: bytes) -> int:
        """One read event; returns how many bytes were taken."""
        if self.frames.begun is None:
            taken = data[: len(self.shared)]
            self.shared[: len(taken)] = taken
            self.frames.feed(self, self.shared, len(taken))
            return len(taken)
        first, second = self.frames.room()
        taken = data[: len(first)]
        first[: len(taken)] = taken
        if second is not None:
            behind = data[len(first) : len(first) + len(second)]
            second[: len(behind)] = behind
            taken += behind
        self.frames.received(self, len(taken))
        return len(taken)

    def deliver_all(self, data: bytes, sizes: list[int] | None = None) -> None:
        sizes = list(sizes or [])
        while data:
            if self.frames.backlog is not None:
                self.frames.feed_backlog(self)
                continue
            size = sizes.pop() if sizes else len(data)
            data = data[self.deliver(data[:size]) :]
        while self.frames.backlog is not None:
            self.frames.feed_backlog(self)


def some_requests(*lengths: int) -> list[bytes]:
    return [heartbeat_frame(number, group="g" * length) for number, length in enumerate(lengths)]


@given(
    st.lists(st.integers(0, 20_000), min_size=1, max_size=8),
    st.lists(st.integers(1, 9_000), max_size=40),
)
def test_requests_round_trip_with_any_split(lengths: list[int], sizes: list[int]) -> None:
    client = Client()
    sent = some_requests(*lengths)
    client.deliver_all(b"".join(sent), sizes)
    assert client.requests == sent
    assert client.frames.requests == len(sent)
    assert client.frames.begun is None
    assert client.memory.used == 0


def test_byte_by_byte() -> None:
    client = Client()
    sent = some_requests(0, 300)
    client.deliver_all(b"".join(sent), [1] * 1000)
    assert client.requests == sent


def test_remainder_is_kept_after_a_fair_share() -> None:
    client = Client()
    sent = some_requests(*[1] * (REQUESTS_PER_TURN + 2))
    client.deliver(b"".join(sent))
    assert client.requests == sent[:REQUESTS_PER_TURN]
    assert client.memory.used == len(b"".join(sent[REQUESTS_PER_TURN:]))
    client.frames.feed_backlog(client)
    assert client.requests == sent
    assert client.memory.used == 0


def test_a_pause_keeps_everything_back_even_half_a_length() -> None:
    client = Client()
    sent = some_requests(5, 6)
    data = b"".join(sent)
    client.frames.pauses |= ANSWERS
    client.deliver(data[: len(sent[0]) + 2])
    assert not client.requests
    client.frames.pauses &= ~ANSWERS
    client.frames.feed_backlog(client)
    assert client.requests == sent[:1]
    client.deliver_all(data[len(sent[0]) + 2 :])
    assert client.requests == sent


def test_nothing_is_handed_out_or_kept_after_the_end() -> None:
    client = Client()
    sent = some_requests(5, 6, 7)
    client.closes_with = sent[0]
    client.deliver(b"".join(sent) + b"x")
    assert client.requests == sent[:1]
    assert client.frames.pauses == CLOSED
    assert client.frames.backlog is None
    assert client.memory.used == 0


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (b"\x16\x03\x01\x02", "It looks like TLS"),
        (b"GET ", "barnabas.metrics.listen"),
        (b"POST", "It looks like HTTP"),
        (b"\x7f\xff\xff\xff", "10 to 100 (socket.request.max.bytes) are allowed"),
        (b"\xff\xff\xff\xff", "a request of -1 bytes is refused"),
    ],
)
def test_wrong_length_is_reported_with_the_likely_protocol(first: bytes, words: str) -> None:
    with pytest.raises(RefusedFrameError) as refused:
        Client(longest=100).deliver(first)
    assert refused.value.label == "length"
    assert words in str(refused.value)


def test_large_request_reserves_twice_the_received_bytes() -> None:
    client = Client(MemoryPool(8 << 20), longest=4 << 20)
    (request,) = some_requests(30_000)
    large = struct.pack(">i", 3 << 20) + request[4:]
    taken = client.deliver(large)
    while taken < len(large):
        taken += client.deliver(large[taken:])
    assert len(request) < client.memory.used <= 256 * 1024
    client.frames.close()
    assert client.memory.used == 0


def test_request_waits_for_memory_and_continues() -> None:
    memory = MemoryPool(64 * 1024)
    memory.hold("10.0.0.2", 1000, 64 * 1024)
    client = Client(memory)
    (request,) = some_requests(30_000)
    taken = client.deliver(request)
    assert client.frames.pauses == MEMORY
    assert memory.waiting == 1
    memory.release("10.0.0.2", 1000, 64 * 1024)
    assert not client.frames.pauses
    client.deliver_all(request[taken:])
    assert client.requests == [request]
    assert memory.used == 0


def test_closing_waiter_returns_all_slots() -> None:
    memory = MemoryPool(64 * 1024)
    memory.hold("10.0.0.2", 1000, 64 * 1024)
    client = Client(memory)
    client.deliver(some_requests(30_000)[0])
    client.frames.close()
    assert (memory.waiting, memory.used) == (0, 64 * 1024)


def test_a_request_is_late_by_the_time_beyond_the_minimum_rate() -> None:
    client = Client()
    (request,) = some_requests(900)
    client.deliver(request[:500])
    client.clock.advance(7_000)
    now = client.clock.monotonic()
    assert client.frames.lateness(now, 100) == pytest.approx(2.0)
    client.frames.forgive(100)
    assert client.frames.lateness(now, 100) == pytest.approx(0.0)
    client.deliver(request[500:])
    assert client.frames.lateness(now, 100) == 0.0
