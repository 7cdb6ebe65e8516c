"""The memory that requests may take together."""

from __future__ import annotations

from barnabas.server.memory import LARGEST_SPARE, MemoryPool


def test_reservations_succeed_until_the_pool_is_used_up() -> None:
    pool = MemoryPool(100)
    assert pool.try_reserve(60)
    assert not pool.try_reserve(41)
    assert pool.try_reserve(40)
    pool.release(60)
    assert pool.try_reserve(60)


def test_a_request_larger_than_the_pool_is_served_when_nothing_else_is_held() -> None:
    pool = MemoryPool(100)
    assert pool.try_reserve(1)
    assert not pool.try_reserve(500)
    pool.release(1)
    assert pool.try_reserve(500)


def test_those_who_wait_are_served_in_turn_and_before_newcomers() -> None:
    pool, served = MemoryPool(100), []
    assert pool.try_reserve(100)
    pool.wait(80, 0, lambda: served.append("large"))
    pool.wait(10, 0, lambda: served.append("small"))
    pool.release(30)
    assert served == []
    assert not pool.try_reserve(5)  # it would fit, but others have waited
    pool.release(70)
    assert served == ["large", "small"]
    assert pool.used == 90


def test_whoever_stops_waiting_lets_the_next_one_pass() -> None:
    pool, served = MemoryPool(100), []

    def large() -> None:
        served.append("large")

    pool.try_reserve(50)
    pool.wait(80, 0, large)
    pool.wait(10, 0, lambda: served.append("small"))
    pool.stop_waiting(large)
    assert served == ["small"]


def test_buffers_of_usual_size_are_used_again() -> None:
    pool = MemoryPool(1 << 20)
    buffer = pool.allocate(100_000)
    assert len(buffer) == 1 << 17
    pool.recycle(buffer)
    assert pool.allocate(70_000) is buffer


def test_large_buffers_are_exact_and_given_back_to_the_system() -> None:
    pool = MemoryPool(1 << 30)
    buffer = pool.allocate(LARGEST_SPARE + 1)
    assert len(buffer) == LARGEST_SPARE + 1
    assert not buffer.readonly
    pool.recycle(buffer)
    assert pool.allocate(LARGEST_SPARE + 1) is not buffer


def test_what_those_who_wait_hold_themselves_does_not_keep_them_waiting() -> None:
    pool, served = MemoryPool(100), []
    pool.try_reserve(50)
    for name in ("first", "second"):
        pool.reserve(10)  # the beginning of a request that is larger than the pool
        pool.wait(500, 10, lambda name=name: served.append(name))  # type: ignore[misc]
    pool.release(50)
    assert served == ["first"]
    pool.release(10)
    pool.release(500)
    assert served == ["first", "second"]
    pool.release(10)
    pool.release(500)
    assert pool.used == 0
