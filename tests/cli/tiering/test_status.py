"""`barnabas tier status`: offsets and bytes of both tiers of each partition."""

from __future__ import annotations

import time
from typing import Any

import pytest

from barnabas.cli.tiering.status import totals_of
from barnabas.client.tiers import PartitionTiers
from barnabas.common.types import TopicPartition
from tests.cli.tiering.conftest import RECORDS, Tiered
from tests.support.cli import Cli
from tests.support.waiting import until

TP = TopicPartition("t", 0)


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
            "copying": row["copying"],
        }
        copying = row["copying"]
        assert copying["remote_bytes"] > 1000 * base
        assert copying["remote_segments"] == len(tiered.segments(topic, index))
        assert (copying["pending_bytes"], copying["pending_segments"], copying["error"]) == (0, 0, None)
        assert (copying["garbage_bytes"], copying["whole"]) == (0, False)
        assert row["local_bytes"] > 1000 * (RECORDS - base)
    shown = cli.ok("tier", "status", topic)
    assert "TIERED END" in shown.out
    assert "2 partitions of 1 topic:" in shown.out
    assert "1.0 GiB" in shown.out


def test_untiered_or_missing_topic_is_reported(cli: Cli, tiered: Tiered) -> None:
    plain = tiered.broker.create_topic()
    refused = cli("tier", "status", plain)
    assert refused.code == 1
    assert f"Topic {plain} is not tiered" in refused.err
    assert cli("tier", "status", "no-such-topic").code == 1


@pytest.mark.parametrize(
    ("local_start", "tiered_end", "records", "size"),
    [(0, 0, 10, 700), (4, 4, 6, 700), (4, 6, 4, None), (4, 10, 0, 0)],
)
def test_bytes_to_copy_are_reported_only_where_known(
    local_start: int, tiered_end: int, records: int, size: int | None
) -> None:
    tiers = PartitionTiers(TP, 1, 0, local_start, tiered_end, 10, 700)
    assert (tiers.pending_records, tiers.pending_bytes) == (records, size)


def test_a_partition_without_a_leader_is_counted_as_offline() -> None:
    totals = totals_of([PartitionTiers(TP, -1), PartitionTiers(TP, 1, 0, 0, 4, 10, 700)])
    assert totals == {
        "topics": 1,
        "partitions": 2,
        "offline": 1,
        "local_bytes": 700,
        "remote_bytes": 0,
        "lag_bytes": 0,
        "failing": 0,
        "pending_records": 6,
        "pending_bytes": None,
    }


def test_cache_of_each_broker_is_reported(cli: Cli, tiered: Tiered) -> None:
    topic = tiered.topic()
    tiered.read(topic)
    (status,) = cli.ok("tier", "status", topic, "-o", "json").json["brokers"]
    assert status["broker"] == 1
    assert status["cache_disk_bytes"] + status["cache_memory_bytes"] > 1_000_000
    assert status["cache_limit_bytes"] == 1 << 30
    assert status["cache_misses"] >= 1
    assert status["store_reads"] >= 1
    assert (status["error"], status["store_down"], status["downloads_waiting"]) == (None, False, 0)


def test_copy_error_is_reported_with_its_start_and_cleared_afterwards(cli: Cli, tiered: Tiered) -> None:
    topic = tiered.topic()
    folder = tiered.manifest(topic).parent
    before = folder.stat().st_mode
    started_ms = time.time_ns() // 1_000_000

    def row() -> dict[str, Any]:
        found: dict[str, Any] = cli.ok("tier", "status", topic, "-o", "json").json["partitions"][0]
        return found

    tiered.manifest(topic).rename(folder / "away")
    (folder / "manifest").mkdir()  # regardless of its rights: no file can replace it
    try:
        tiered.produce(topic)
        until(lambda: row()["copying"]["error"], "copying fails")
        failing = row()
        assert failing["copying"]["state"] == "paused"
        assert started_ms <= failing["copying"]["error_since_ms"] <= time.time_ns() // 1_000_000
        assert failing["copying"]["pending_segments"] >= 1
        assert failing["copying"]["pending_bytes"] >= 1_000_000
        shown = cli.ok("tier", "status", topic).out
        assert "errors:" in shown
        assert f"{topic}-0, since 20" in shown
        assert "are copied)" in shown
    finally:
        (folder / "manifest").rmdir()
        (folder / "away").rename(folder / "manifest")
    assert folder.stat().st_mode == before
    until(lambda: not row()["copying"]["error"] and not row()["copying"]["pending_bytes"], "copying goes on")
    assert "errors:" not in cli.ok("tier", "status", topic).out
