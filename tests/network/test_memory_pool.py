"""The memory pool of requests."""

from __future__ import annotations

import random
import time
from functools import partial

import pytest

from barnabas.network.limits import UNLIMITED
from barnabas.network.memory_pool import FIRST_STEP, MAX_SPARE, SMALL_FRAME, Granted, MemoryPool

KIB, MIB = 1 << 10, 1 << 20
USUAL = 240 * KIB
LARGE = 100 * MIB


class Frames:
    """Frames of a pool by name, with their reservations and grants."""

    def __init__(self, pool: MemoryPool) -> None:
        self.pool = pool
        self.held: dict[str, int] = {}
        self.granted: list[str] = []
        self._slots: dict[str, tuple[str, int]] = {}
        self._callbacks: dict[str, Granted] = {}

    def begin(self, name: str, length: int, arrived: int = 100, address: str = "a") -> bool:
        """Return True if the frame need not wait."""
        self._slots[name] = (address, length)
        self.held[name] = self.pool.begin(address, length, arrived)
        if self.held[name]:
            return True
        self.held[name] = arrived
        self.pool.hold(address, length, arrived)
        self._wait(name)
        return False

    def fill(self, name: str) -> bool:
        """All reserved bytes arrive; return True if it need not wait for more."""
        address, length = self._slots[name]
        held = self.held[name]
        if held == length:
            return True
        self.held[name] = self.pool.grow(address, length, held)
        if self.held[name] > held:
            return True
        self._wait(name)
        return self.held[name] > held

    def _wait(self, name: str) -> None:
        granted = self._callbacks[name] = partial(self._grant, name)
        self.pool.wait(*self._slots[name], self.held[name], granted)

    def _grant(self, name: str, end: int) -> None:
        self.held[name] = end
        self.granted.append(name)

    def stop(self, name: str) -> None:
        """The client disconnects while its frame waits."""
        self.pool.stop_waiting(*self._slots[name], self._callbacks[name])
        self.end(name)

    def end(self, name: str) -> None:
        self.pool.release(*self._slots.pop(name), self.held.pop(name))


def test_frames_of_usual_size_reserve_their_length_at_once() -> None:
    frames = Frames(MemoryPool(256 * MIB))
    for length in (100, SMALL_FRAME, 128 * KIB, MAX_SPARE):
        assert frames.begin(f"{length}", length)
        assert frames.held[f"{length}"] == length


def test_large_frame_reserves_twice_the_received_bytes() -> None:
    pool = MemoryPool(256 * MIB)
    frames = Frames(pool)
    frames.begin("large", LARGE)
    sizes = [pool.used]
    while frames.held["large"] < LARGE:
        assert frames.fill("large")
        sizes.append(pool.used)
    assert sizes == [FIRST_STEP << step for step in range(9)] + [LARGE]
    frames.end("large")
    assert pool.used == 0


def test_frames_that_announce_much_and_send_nothing_leave_room_for_others() -> None:
    pool = MemoryPool(256 * MIB, 128 * MIB)
    frames = Frames(pool)
    assert all(frames.begin(f"hostile {number}", LARGE) for number in range(300))
    assert pool.used == 300 * FIRST_STEP
    assert frames.begin("ordinary", MAX_SPARE, address="b")


def test_waiters_are_served_in_order_and_before_newcomers() -> None:
    pool = MemoryPool(8 * FIRST_STEP)
    frames = Frames(pool)
    assert all(frames.begin(f"{number}", USUAL) for number in range(7))  # an eighth is for small ones
    assert not frames.begin("first", USUAL)
    assert not frames.begin("second", 200 * KIB)
    assert frames.begin("small", SMALL_FRAME)
    frames.end("0")
    assert frames.granted == ["first"]
    assert not frames.begin("newcomer", 100 * KIB)
    frames.end("1")
    assert frames.granted == ["first", "second", "newcomer"]


def test_cancelled_waiter_lets_the_next_one_pass() -> None:
    pool = MemoryPool(8 * FIRST_STEP)
    frames = Frames(pool)
    assert all(frames.begin(f"{number}", FIRST_STEP) for number in range(6))
    assert not frames.begin("first", 8 * FIRST_STEP, arrived=FIRST_STEP)
    assert not frames.begin("second", 100 * KIB)
    frames.stop("first")
    assert frames.granted == ["second"]
    assert pool.waiting == 0


def test_a_request_larger_than_the_pool_is_served_when_nothing_else_is_held() -> None:
    pool = MemoryPool(MIB)
    frames = Frames(pool)
    assert frames.begin("small", 100 * KIB)
    assert frames.begin("larger than the pool", 5 * MIB)  # it begins, as others do
    assert not frames.fill("larger than the pool") or frames.held["larger than the pool"] < 5 * MIB
    while frames.held["larger than the pool"] < 5 * MIB and pool.waiting == 0:
        frames.fill("larger than the pool")
    assert pool.waiting == 1
    frames.end("small")
    assert frames.held["larger than the pool"] == 5 * MIB
    frames.end("larger than the pool")
    assert pool.used == 0


def test_frames_that_all_wait_for_more_are_served_one_after_the_other() -> None:
    pool = MemoryPool(8 * MIB)
    frames = Frames(pool)
    names = [f"{number}" for number in range(14)]
    for name in names:
        assert frames.begin(name, 20 * MIB)
        assert frames.fill(name)  # 14 times half a MiB is all there is for large ones
    for name in names:
        frames.fill(name)
    assert (frames.granted, frames.held["0"]) == (["0"], 20 * MIB)
    while frames.held:
        assert pool.used <= pool.size + 20 * MIB
        name = next(name for name in frames.granted if name in frames.held)
        if frames.held[name] == 20 * MIB:
            frames.end(name)
        elif not frames.fill(name):
            frames.granted.remove(name)
    assert (pool.used, pool.waiting) == (0, 0)


def test_one_address_cannot_take_it_all() -> None:
    pool = MemoryPool(256 * MIB, 128 * MIB)
    frames = Frames(pool)
    assert all(frames.begin(f"{number}", MIB) for number in range(128))
    assert not frames.begin("one more", MIB)
    assert frames.begin("another address", MIB, address="b")  # not behind the one that waits
    frames.end("0")
    assert frames.granted == ["one more"]


def test_a_request_larger_than_a_share_is_served_when_its_address_holds_nothing_else() -> None:
    pool = MemoryPool(256 * MIB, 10 * MIB)
    frames = Frames(pool)
    frames.begin("other", MIB)
    frames.begin("large", 50 * MIB)
    while pool.waiting == 0:
        assert frames.held["large"] < 50 * MIB
        frames.fill("large")
    frames.end("other")
    assert frames.held["large"] == 50 * MIB
    frames.begin("alone", 50 * MIB, address="b")
    while frames.held["alone"] < 50 * MIB:
        assert frames.fill("alone")


@pytest.mark.parametrize("address", ["a", "b"])
def test_small_frames_do_not_wait_behind_large_ones(address: str) -> None:
    pool = MemoryPool(256 * MIB, 128 * MIB)
    frames = Frames(pool)
    for number in range(2000):
        frames.begin(f"{number}", FIRST_STEP, address="ab"[number % 2])
    assert pool.waiting == 2000 - 4 * 224
    assert all(frames.begin(f"small {number}", SMALL_FRAME, address=address) for number in range(256))
    assert not frames.begin("too many", SMALL_FRAME, address=address)  # half of it is for other addresses
    assert frames.begin("another", SMALL_FRAME, address="c")


def test_small_frames_use_all_of_the_pool_while_no_large_one_waits() -> None:
    pool = MemoryPool(16 * MIB)
    frames = Frames(pool)
    assert all(frames.begin(f"{number}", SMALL_FRAME) for number in range(256))
    assert pool.used == pool.size
    assert not frames.begin("one more", SMALL_FRAME)


def test_those_in_the_way_of_others_are_known() -> None:
    step = FIRST_STEP
    pool = MemoryPool(8 * step, 4 * step)
    frames = Frames(pool)
    assert all(frames.begin(f"a{number}", step, address="a") for number in range(4))
    assert not pool.is_wanted("a", step)
    assert not frames.begin("one too many", step, address="a")
    assert pool.is_wanted("a", step)
    assert not pool.is_wanted("b", step)  # memory of others would not help
    assert all(frames.begin(f"b{number}", step, address="b") for number in range(2))
    assert not frames.begin("b", step, address="b")
    assert pool.is_wanted("c", step)
    assert not pool.is_wanted("c", SMALL_FRAME)


def test_buffers_of_usual_size_are_used_again() -> None:
    pool = MemoryPool(1 << 20)
    pool.begin("a", 100_000, 50)
    buffer = pool.allocate(100_000, 100_000)
    assert len(buffer) == 1 << 17
    pool.finish("a", 100_000, buffer)
    assert pool.used == 0
    assert pool.allocate(70_000, 70_000) is buffer


def test_large_buffers_are_exact_and_given_back_to_the_system() -> None:
    pool = MemoryPool(1 << 30)
    pool.hold("a", MAX_SPARE + 1, MAX_SPARE + 1)
    buffer = pool.allocate(MAX_SPARE + 1, FIRST_STEP)
    assert len(buffer) == MAX_SPARE + 1
    assert not buffer.readonly
    pool.finish("a", MAX_SPARE + 1, buffer)
    assert pool.allocate(MAX_SPARE + 1, FIRST_STEP) is not buffer


# A model: any number of frames that keep arriving, or are given up, in any order

ADDRESSES = ("a", "b", "c")


class Model:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.size = self.random.choice([MIB, 5 * MIB, 64 * MIB])
        self.pool = MemoryPool(self.size, self.random.choice([UNLIMITED, self.size // 2, self.size // 10]))
        self.frames: dict[int, Frame] = {}
        self.ended = 0

    def begin(self) -> None:
        number = self.ended + len(self.frames)
        length = int(2 ** self.random.uniform(7, 25))
        frame = Frame(self, self.random.choice(ADDRESSES), length)
        frame.begin(min(length - 1, self.random.choice([5, 1000, 100_000])))
        self.frames[number] = frame

    def advance(self) -> None:
        """One of the frames receives data, or its client disconnects."""
        active = [number for number, frame in self.frames.items() if not frame.waits]
        number = self.random.choice(active)
        if self.random.random() < 0.02 or self.frames[number].receive(self.random.randrange(1, 4 * MIB)):
            self.frames.pop(number).end()
            self.ended += 1

    def check(self) -> None:
        frames = self.frames.values()
        assert self.pool.used == sum(frame.held for frame in frames)
        assert self.pool.waiting == sum(frame.waits for frame in frames)
        assert not frames or not all(frame.waits for frame in frames)
        # The size, one above it per lane, and the bytes received before the rejection.
        limit = self.size + max((frame.length for frame in frames), default=0) + SMALL_FRAME
        assert self.pool.used <= limit + sum(frame.unasked for frame in frames)


class Frame:
    def __init__(self, model: Model, address: str, length: int) -> None:
        self.pool, self.address, self.length = model.pool, address, length
        self.held = self.arrived = self.unasked = 0
        self.waits = False

    def begin(self, arrived: int) -> None:
        self.arrived = arrived
        self.held = self.pool.begin(self.address, self.length, arrived)
        if not self.held:
            self.held = self.unasked = arrived
            self.pool.hold(self.address, self.length, arrived)
            self._wait()

    def receive(self, count: int) -> bool:
        """Return True if it is complete."""
        self.arrived = min(self.arrived + count, self.held)
        if self.arrived == self.held < self.length:
            end = self.pool.grow(self.address, self.length, self.held)
            if end == self.held:
                self._wait()
            self.held = max(end, self.held)
        return self.arrived == self.length

    def _wait(self) -> None:
        self.waits = True
        self.pool.wait(self.address, self.length, self.held, self.granted)

    def granted(self, end: int) -> None:
        assert end > self.held
        self.waits, self.held, self.unasked = False, end, 0

    def end(self) -> None:
        if self.waits:
            self.pool.stop_waiting(self.address, self.length, self.granted)
        self.pool.release(self.address, self.length, self.held)


@pytest.mark.parametrize("seed", range(40))
def test_all_clients_are_served_within_the_limits_in_any_arrival_order(seed: int) -> None:
    model = Model(seed)
    begun = 0
    while begun < 150 or model.frames:
        if begun < 150 and (not model.frames or model.random.random() < 0.3):
            model.begin()
            begun += 1
        else:
            model.advance()
        model.check()
    assert model.ended == begun
    assert (model.pool.used, model.pool.waiting) == (0, 0)
    assert not model.pool._small.held
    assert not model.pool._large.held


def test_thousands_of_waiters_may_disconnect_simultaneously() -> None:
    pool = MemoryPool(8 * FIRST_STEP)
    frames = Frames(pool)
    assert all(frames.begin(f"{number}", USUAL) for number in range(7))
    names = [f"waiting {number}" for number in range(10_000)]
    assert not any(frames.begin(name, USUAL) for name in names)
    started = time.process_time()
    for name in reversed(names):
        frames.stop(name)
    assert pool.waiting == 0
    assert time.process_time() - started < 2.0  # a search of all of them each time takes a minute
