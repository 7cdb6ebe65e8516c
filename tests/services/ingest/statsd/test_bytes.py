"""Series, set members and timer samples are bounded in bytes."""

from __future__ import annotations

import tracemalloc

import pytest

from barnabas.services.ingest.statsd import Aggregation, Kind, Measured

MAX_BYTES = 1 << 20


def measured(kind: Kind, name: str, values: list[str]) -> Measured:
    return Measured(name=name, kind=kind, values=tuple(values))


@pytest.mark.parametrize("kind", ["counter", "gauge", "timer", "set"])
def test_long_names_and_many_values_take_no_more_memory_than_the_limit(kind: Kind) -> None:
    tracemalloc.start()
    try:
        aggregation = Aggregation(MAX_BYTES)
        results = {
            aggregation.add(measured(kind, f"{number:05}" + "n" * 30_000, [str(each) for each in range(200)]))
            for number in range(500)
        }
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert results == {True, False}
    assert size < 3 * MAX_BYTES


@pytest.mark.parametrize("kind", ["counter", "gauge", "timer", "set"])
def test_there_is_room_again_after_a_report(kind: Kind) -> None:
    aggregation = Aggregation(MAX_BYTES)
    assert not all(aggregation.add(measured(kind, str(number) * 1000, ["1"])) for number in range(5000))
    aggregation.report(1.0)
    assert aggregation.add(measured(kind, "short", ["1"]))
