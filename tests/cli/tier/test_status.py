"""`barnabas tier status`: both tiers of each partition, in offsets and bytes."""

from __future__ import annotations

import pytest

from barnabas.cli.tier.status import totals_of
from barnabas.client.tiers import PartitionTiers
from barnabas.types import TopicPartition
from tests.cli.conftest import Cli
from tests.cli.tier.conftest import RECORDS, Tiered

PLACE = TopicPartition("t", 0)


def test_where_the_records_of_tiered_topics_lie_is_shown(cli: Cli, tiered: Tiered) -> None:
    plain, topic = tiered.broker.create_topic(), tiered.topic(partitions=2)
    facts = cli.ok("tier", "status", "-o", "json").json
    assert plain not in {row["topic"] for row in facts["partitions"]}
    assert facts["totals"]["topics"] >= 1
    for index, row in enumerate(each for each in facts["partitions"] if each["topic"] == topic):
        (base,) = tiered.local_segments(topic, index)
        assert row == {
            "topic": topic,
            "partition": index,
            "leader": 1,
            "log_start": 0,
            "local_start": base,
            "tiered_end": base,
            "end": RECORDS,
            "local_bytes": row["local_bytes"],
            "pending_records": RECORDS - base,
            "pending_bytes": row["local_bytes"],
        }
        assert row["local_bytes"] > 1000 * (RECORDS - base)
    shown = cli.ok("tier", "status", topic)
    assert "TIERED END" in shown.out
    assert "2 partitions of 1 topic:" in shown.out


def test_a_topic_that_is_not_tiered_or_not_there_is_said_to_be_so(cli: Cli, tiered: Tiered) -> None:
    plain = tiered.broker.create_topic()
    refused = cli("tier", "status", plain)
    assert refused.code == 1
    assert f"Topic {plain} is not tiered" in refused.err
    assert cli("tier", "status", "no-such-topic").code == 1


@pytest.mark.parametrize(
    ("local_start", "tiered_end", "records", "size"),
    [(0, 0, 10, 700), (4, 4, 6, 700), (4, 6, 4, None), (4, 10, 0, 0)],
)
def test_bytes_to_be_copied_are_told_only_where_they_are_known(
    local_start: int, tiered_end: int, records: int, size: int | None
) -> None:
    tiers = PartitionTiers(PLACE, 1, 0, local_start, tiered_end, 10, 700)
    assert (tiers.pending_records, tiers.pending_bytes) == (records, size)


def test_a_partition_without_a_leader_is_counted_as_offline() -> None:
    totals = totals_of([PartitionTiers(PLACE, -1), PartitionTiers(PLACE, 1, 0, 0, 4, 10, 700)])
    assert totals == {
        "topics": 1,
        "partitions": 2,
        "offline": 1,
        "local_bytes": 700,
        "pending_records": 6,
        "pending_bytes": None,
    }
