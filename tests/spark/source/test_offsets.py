"""Offsets in options and checkpoints, and the size of micro-batches."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.types import TopicPartition
from barnabas.spark.options import OptionError, Options
from barnabas.spark.source.offsets import (
    EARLIEST,
    LATEST,
    OffsetSpec,
    StreamPosition,
    check_batch_moments,
    moment_option,
    parse_partitions,
    share_out,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
BOOTSTRAP = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}


def moment(which: str = "starting", **options: str) -> OffsetSpec:
    return moment_option(Options({**BOOTSTRAP, **options}, "source"), which, LATEST)


def test_a_position_survives_its_checkpoint() -> None:
    position = StreamPosition({A0: 5, A1: 7, B0: 0}, {"a": "id-of-a"}, {A0: 1, A1: 2})

    assert StreamPosition.from_json(position.to_json()) == position
    assert position.to_json()["a"] == {"0": 5, "1": 7}


def test_offsets_of_sparks_own_checkpoint_are_understood() -> None:
    assert StreamPosition.from_json({"a": {"0": 5}}) == StreamPosition({A0: 5})


def test_keywords_and_numbers_mean_the_same_as_in_spark() -> None:
    assert moment() == OffsetSpec(word=LATEST)
    assert moment(startingOffsets="Earliest") == OffsetSpec(word=EARLIEST)
    assert moment(startingOffsets='{"a":{"0":23,"1":-2}}') == OffsetSpec(offsets={A0: 23, A1: EARLIEST})


def test_a_timestamp_comes_before_timestamps_and_they_before_offsets() -> None:
    options = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"a":{"0":1000}}'}

    assert moment(**options) == OffsetSpec(timestamps={A0: 1000})
    assert moment(**options, startingTimestamp="99") == OffsetSpec(timestamp=99)


@pytest.mark.parametrize("text", ["yesterday", "{", '{"a":5}', '["a"]', '{"a":{"x":1}}'])
def test_offsets_that_are_none_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(OptionError, match=r'expected e\.g\. \{"topicA"'):
        moment(startingOffsets=text)


def test_a_batch_cannot_start_at_the_end_or_end_at_the_start() -> None:
    for starting, ending in (
        (OffsetSpec(word=LATEST), OffsetSpec(word=LATEST)),
        (OffsetSpec(offsets={A0: LATEST}), OffsetSpec(word=LATEST)),
        (OffsetSpec(word=EARLIEST), OffsetSpec(word=EARLIEST)),
        (OffsetSpec(word=EARLIEST), OffsetSpec(offsets={A0: EARLIEST})),
        (OffsetSpec(offsets={A0: 9}), OffsetSpec(offsets={A0: 3})),
        (OffsetSpec(offsets={A0: 9}), OffsetSpec(offsets={A1: 30})),
    ):
        with pytest.raises(OptionError):
            check_batch_moments(starting, ending)


def test_partitions_are_assigned_by_json() -> None:
    assert parse_partitions('{"b":[0],"a":[1,0]}') == [A0, A1, B0]
    with pytest.raises(OptionError, match="assign"):
        parse_partitions("a,b")


def test_a_limit_is_shared_in_proportion() -> None:
    assert share_out(30, {A0: 0, A1: 100}, {A0: 200, A1: 200}) == {A0: 20, A1: 110}
    assert share_out(1000, {A0: 0}, {A0: 200}) == {A0: 200}


@given(
    st.integers(1, 1000),
    st.dictionaries(st.integers(0, 20), st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1),
)
@settings(deadline=None)
def test_limit_leaves_no_request_waiting_indefinitely(limit: int, logs: dict[int, tuple[int, int]]) -> None:
    start = {TopicPartition("a", index): first for index, (first, _) in logs.items()}
    end = {TopicPartition("a", index): first + size for index, (first, size) in logs.items()}
    shared = share_out(limit, start, end)

    assert all(start[tp] <= shared[tp] <= end[tp] for tp in end)
    assert all(shared[tp] > start[tp] for tp in end if end[tp] > start[tp])
    assert sum(shared[tp] - start[tp] for tp in end) <= limit + len(end)
