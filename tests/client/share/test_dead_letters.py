"""Dead letters: listing and filtering."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.client.cluster import Client
from barnabas.client.opening import ConsumedRecord
from barnabas.client.share.dead_letters import DeadLetterFilter, RedrivenOffsets, read_letter
from barnabas.client.share.redriving import redrive
from barnabas.common.errors import KafkaError
from barnabas.common.types import TopicPartition
from barnabas.records.delays import REJECTED, DeadLetterOrigin, dead_letters
from barnabas.records.record import Record


def test_acknowledgements_out_of_order_are_remembered_until_all_arrived() -> None:
    redriven = RedrivenOffsets(10)
    for offset in (12, 13, 17):
        redriven.add(offset)
    assert redriven.metadata() == "12-13 17"
    again = RedrivenOffsets.read(redriven.position, redriven.metadata(), 1000)
    assert [offset for offset in range(8, 20) if offset not in again] == [10, 11, 14, 15, 16, 18, 19]
    again.add(10)
    again.add(11)
    assert (again.position, again.metadata()) == (14, "17")


def test_more_than_a_commit_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="older ones first"):
        RedrivenOffsets(0, set(range(1, 10_000, 2))).metadata()


def test_dead_letter_has_its_origin_and_keeps_its_headers() -> None:
    given_up = DeadLetterOrigin("workers", TopicPartition("jobs", 3), 5, REJECTED)
    (record,) = dead_letters(given_up, [Record(42, 0, b"k", b"v", (("a", b"b"),))], 7, copied=True)
    letter = read_letter(ConsumedRecord("dlq.jobs", 0, *record))
    assert (letter.origin, letter.origin_offset) == (TopicPartition("jobs", 3), 42)
    assert (letter.group, letter.deliveries, letter.reason) == ("workers", 5, REJECTED)
    assert letter.sent_back() == (("a", b"b"), ("barnabas-redriven-from", b"dlq.jobs-0@0"))
    assert DeadLetterFilter(["group=work*", "deliveries=5"])(letter)
    assert not DeadLetterFilter(["reason=*exceeded*"])(letter)


def test_manually_written_record_is_a_dead_letter_of_another_kind() -> None:
    letter = read_letter(ConsumedRecord("dlq.jobs", 0, 1, 0, None, b"written by hand", (("a", b"b"),)))
    assert letter.is_of_another_kind
    assert (letter.kind, letter.origin.topic, letter.headers) == ("other", "", (("a", b"b"),))
    assert letter.has_content


def test_a_filter_names_the_fields_that_there_are() -> None:
    with pytest.raises(ValueError, match="deliveries, reason"):
        DeadLetterFilter(["color=red"])


@pytest.mark.parametrize(
    ("headers", "kind", "origin", "by", "reason"),
    [
        (
            [("errors.dataset", b"orders"), ("errors.reason", b"positive"), ("errors.topic", b"raw"),
             ("errors.partition", b"2"), ("errors.offset", b"9")],
            "pipeline", (TopicPartition("raw", 2), 9), "orders", "positive",
        ),
        (
            [("__connect.errors.topic", b"raw"), ("__connect.errors.partition", b"1"),
             ("__connect.errors.offset", b"8"), ("__connect.errors.connector.name", b"jdbc"),
             ("__connect.errors.exception.message", b"no such column")],
            "connect", (TopicPartition("raw", 1), 8), "jdbc", "no such column",
        ),
        (
            [("path", b"/var/log/x"), ("__dlq.errors.message", b"too long")],
            "ingest", (TopicPartition("", -1), -1), "/var/log/x", "too long",
        ),
    ],
)  # fmt: skip
def test_letters_of_pipelines_connect_and_agents_are_understood(
    headers: list[tuple[str, bytes]], kind: str, origin: tuple[TopicPartition, int], by: str, reason: str
) -> None:
    letter = read_letter(ConsumedRecord("dlq", 0, 4, 0, b"k", b"v", (("own", b"1"), *headers)))
    assert (letter.kind, (letter.origin, letter.origin_offset)) == (kind, origin)
    assert (letter.group, letter.reason) == (by, reason)
    assert ("own", b"1") in letter.headers
    assert reason.encode() not in [value for _, value in letter.headers]


def test_a_letter_without_an_origin_is_sent_back_only_to_a_topic_that_is_named() -> None:
    letter = read_letter(ConsumedRecord("dlq", 0, 4, 0, None, b"v", (("__dlq.errors.message", b"too long"),)))
    with pytest.raises(KafkaError, match="name the target topic"):
        asyncio.run(redrive(Client("127.0.0.1:1"), "dlq", [letter]))


def test_committed_offsets_of_others_are_limited_to_the_partition_size() -> None:
    """Any client that may commit for the group could otherwise exhaust the reader's memory."""
    redriven = RedrivenOffsets.read(2, "0-99999999999999 ² 1-x 7-3 " + "9" * 4000, 10)
    assert redriven.beyond == set(range(2, 10))
