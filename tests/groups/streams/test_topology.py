"""Resolution of a topology against the partitions of its source topics."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.groups.streams.configured import BROKER_DEFAULT, InternalTopic, configure
from barnabas.groups.streams.sizing import StreamsStatus, decide_partitions
from barnabas.groups.streams.topology import StreamsTopology, check_topology, to_value, topology_of
from barnabas.protocol.messages.streams import CopartitionGroup, StreamsGroupHeartbeatTopology
from tests.support.builders.streams import internal, sent_topology, subtopology, topology, word_count

COUNTING = topology_of(to_value(word_count()))


def problem_of(requested: StreamsTopology, existing: dict[str, int]) -> tuple[StreamsStatus, str]:
    problem = configure(requested, existing, 0).problem
    assert problem is not None
    return problem.status, problem.detail


def test_internal_topics_follow_the_source_topic() -> None:
    assert decide_partitions(COUNTING, {"lines": 4}) == {"words": 4, "counts": 4}


def test_a_ready_topology_has_a_task_for_each_partition() -> None:
    ready = configure(COUNTING, {"lines": 4, "words": 4, "counts": 4}, 7)
    assert ready.is_ready
    assert ready.metadata_hash == 7
    assert {name: one.tasks for name, one in ready.subtopologies.items()} == {"0": 4, "1": 4}
    assert [one.is_stateful for one in ready.subtopologies.values()] == [False, True]


def test_the_largest_topic_that_is_read_decides() -> None:
    merged = topology(subtopology("0", "small", "large", changelogs=["state"]))
    configured = configure(merged, {"small": 2, "large": 5}, 0)
    assert configured.subtopologies["0"].tasks == 5
    assert configured.missing == (InternalTopic("state", 5, BROKER_DEFAULT, {"cleanup.policy": "compact"}),)


def test_missing_internal_topics_are_listed_with_their_configuration() -> None:
    requested = topology(
        subtopology("0", "lines", writes=["words"]),
        subtopology("1", reads=[internal("words", 6, 3, retention_ms="-1")]),
    )
    configured = configure(requested, {"lines": 4}, 0)
    assert configured.missing == (InternalTopic("words", 6, 3, {"retention.ms": "-1"}),)
    assert configured.subtopologies["1"].tasks == 6
    assert configured.problem is not None
    assert configured.problem.status is StreamsStatus.MISSING_INTERNAL_TOPICS
    assert configured.problem.detail == "Internal topics are missing: words"


def test_sizes_are_handed_down_through_several_repartitions_in_any_order() -> None:
    chain = topology(
        subtopology("2", reads=[internal("b")], changelogs=["state"]),
        subtopology("1", reads=[internal("a")], writes=["b"]),
        subtopology("0", "lines", writes=["a"]),
    )
    assert decide_partitions(chain, {"lines": 3}) == {"a": 3, "b": 3, "state": 3}


def test_a_loop_of_repartition_topics_cannot_be_sized() -> None:
    loop = topology(
        subtopology("0", reads=[internal("a")], writes=["b"]),
        subtopology("1", reads=[internal("b")], writes=["a"]),
    )
    with pytest.raises(KafkaError, match="loops in the topology") as failure:
        configure(loop, {}, 0)
    assert failure.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_repartition_topic_without_a_writer_cannot_be_sized() -> None:
    with pytest.raises(KafkaError, match="never used as a sink"):
        configure(topology(subtopology("0", "lines", reads=[internal("a")])), {"lines": 1}, 0)


def test_a_subtopology_that_reads_nothing_is_refused() -> None:
    with pytest.raises(KafkaError, match="No source topics found for subtopology 0"):
        configure(topology(subtopology("0", changelogs=["state"])), {}, 0)


def test_missing_source_topics_are_named_and_the_rest_counted() -> None:
    requested = topology(subtopology("0", "e", "d", "c", "b", "a"))
    assert problem_of(requested, {"c": 1}) == (
        StreamsStatus.MISSING_SOURCE_TOPICS,
        "Source topics a, b, d and 1 additional topics are missing.",
    )


def test_an_internal_topic_with_other_partitions_is_in_the_way() -> None:
    assert problem_of(COUNTING, {"lines": 4, "words": 4, "counts": 2}) == (
        StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic counts has different number of partitions: expected 4, found 2",
    )


# -- copartition groups


def joined(*sources: str, reads: dict[str, int]) -> StreamsTopology:
    """One subtopology that joins everything that it reads; another writes the repartition topics."""
    group = CopartitionGroup(
        source_topics=list(range(len(sources))), repartition_source_topics=list(range(len(reads)))
    )
    return topology(
        subtopology("0", "wide", writes=list(reads)),
        subtopology("1", *sources, reads=[internal(*one) for one in reads.items()], together=[group]),
    )


def test_repartition_topics_follow_the_external_topic_they_are_joined_with() -> None:
    decided = decide_partitions(joined("left", reads={"right": 0}), {"wide": 9, "left": 3})
    assert decided == {"right": 3}


def test_repartition_topics_that_are_joined_get_the_size_of_the_largest() -> None:
    requested = topology(
        subtopology("0", "narrow", writes=["left"]),
        subtopology("1", "wide", writes=["right"]),
        subtopology(
            "2",
            reads=[internal("left"), internal("right")],
            together=[CopartitionGroup(repartition_source_topics=[0, 1])],
        ),
    )
    assert decide_partitions(requested, {"narrow": 2, "wide": 9}) == {"left": 9, "right": 9}


def test_a_sized_repartition_topic_decides_for_the_others() -> None:
    assert decide_partitions(joined(reads={"a": 5, "b": 0}), {"wide": 9}) == {"a": 5, "b": 5}


def test_external_topics_that_are_joined_must_have_the_same_number() -> None:
    assert problem_of(joined("left", "right", reads={}), {"wide": 9, "left": 3, "right": 4}) == (
        StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{left=3, right=4}]",
    )


def test_sized_repartition_topics_that_are_joined_must_have_the_same_number() -> None:
    assert problem_of(joined(reads={"a": 5, "b": 6}), {"wide": 9})[1] == (
        "Following topics do not have the same number of partitions: [{a=5, b=6}]"
    )


def test_a_sized_repartition_topic_must_fit_the_external_topic() -> None:
    assert problem_of(joined("left", reads={"right": 5}), {"wide": 9, "left": 3})[1] == (
        "Number of partitions [5] of repartition topic [right] doesn't match number of partitions [3] "
        "of the source topic."
    )


# -- what is refused at once


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (sent_topology(epoch=-1), "must not be negative"),
        (sent_topology(subtopology("0", "a"), subtopology("0", "b")), "listed twice"),
        (sent_topology(subtopology("0", reads=[internal("a", -3)])), "cannot have -3 partitions"),
        (
            sent_topology(subtopology("0", "a", together=[CopartitionGroup([1])])),
            "topics that it does not have",
        ),
        (
            sent_topology(subtopology("0", "a", together=[CopartitionGroup([-1])])),
            "topics that it does not have",
        ),
        (
            sent_topology(subtopology("0", "a", together=[CopartitionGroup(repartition_source_topics=[0])])),
            "topics that it does not have",
        ),
    ],
)
def test_a_topology_that_contradicts_itself_is_refused(
    bad: StreamsGroupHeartbeatTopology, reason: str
) -> None:
    with pytest.raises(KafkaError, match=reason) as failure:
        check_topology(bad)
    assert failure.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_changelog_must_not_come_with_a_size() -> None:
    bad = subtopology("0", "a")
    bad.state_changelog_topics = [internal("state", 4)]
    with pytest.raises(KafkaError, match="Changelog topic state must have an undefined partition count"):
        check_topology(sent_topology(bad))
    check_topology(word_count())


def test_topology_knows_the_readers_and_inputs_of_a_topic() -> None:
    assert COUNTING.readers == {"lines": "0", "words": "1"}
    assert COUNTING.required_topics == {"lines", "words", "counts"}
