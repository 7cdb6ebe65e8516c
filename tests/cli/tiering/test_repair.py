"""`barnabas tier repair`: repairs a damaged manifest and changes nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.cli.tiering.plans import holes
from barnabas.client.tiers import PartitionTiers
from barnabas.common.types import TopicPartition as Place
from barnabas.tiering.repair import REPAIRER
from tests.cli.tiering.conftest import RECORDS, Tiered
from tests.support.builders.segments import manifest_of
from tests.support.cli import Cli
from tests.support.waiting import until


@pytest.fixture(scope="module")
def topic(tiered: Tiered) -> str:
    return tiered.topic(partitions=2)


@pytest.fixture
def copied(tiered: Tiered, tmp_path: Path) -> Tiered:
    return Tiered(tiered.broker, Path(shutil.copytree(tiered.bucket, tmp_path / "copy")))


def test_damaged_and_lost_manifests_are_repaired_and_the_topic_is_readable_again(tiered: Tiered) -> None:
    topic = tiered.topic(partitions=2)
    cli = Cli(tiered.broker.bootstrap_servers)
    damaged, lost = tiered.manifest(topic, 0), tiered.manifest(topic, 1)
    damaged.write_bytes(b"garbage")
    lost.unlink()
    tiered.broker.restart()
    assert first_records(tiered, topic) == 0
    assert cli("tier", "verify", topic, "--store", tiered.url).code == 1
    shown = cli.ok("tier", "repair", topic, "--store", tiered.url)
    assert "is damaged" in shown.out
    assert "is missing" in shown.out
    assert "Nothing was changed" in shown.err
    assert (damaged.read_bytes(), lost.exists()) == (b"garbage", False)
    assert "2 manifests written" in cli.ok("tier", "repair", topic, "--store", tiered.url, "--yes").err
    for partition in (0, 1):
        assert tiered.read(topic, partition) == list(range(RECORDS))
        manifest = tiered.manifest(topic, partition)
        until(lambda file=manifest: REPAIRER.encode() not in file.read_bytes(), "the leader claims it")  # type: ignore[misc]
    (kept,) = damaged.parent.glob("manifest.replaced-*")
    assert kept.read_bytes() == b"garbage"
    cli.ok("tier", "verify", topic, "--store", tiered.url)


def test_sound_manifests_are_left_alone_unless_forced(cli: Cli, copied: Tiered, topic: str) -> None:
    before = copied.manifest(topic).read_bytes()
    repair = ("tier", "repair", topic, "--store", copied.url, "--yes")
    refused = cli(*repair)
    assert (refused.code, "nothing to repair" in refused.err) == (1, True)
    assert copied.manifest(topic).read_bytes() == before
    forced = cli.ok(*repair, "--force", "-o", "json").json
    assert [row["partition"] for row in forced["partitions"]] == [0, 1]
    for row in forced["partitions"]:
        (base,) = copied.local_segments(topic, row["partition"])
        assert (row["log_start"], row["tiered_end"], row["holes"], row["damaged"]) == (0, base, [], [])
        assert row["segments"] == len(copied.segments(topic, row["partition"]))
    assert REPAIRER.encode() in copied.manifest(topic).read_bytes()


def test_compacted_topics_are_refused(cli: Cli, tiered: Tiered) -> None:
    compacted = {
        "cleanup.policy": "compact",
        "remote.storage.enable": "true",
        "barnabas.remote.compacted": "copy",
    }
    topic = tiered.broker.create_topic(configs=compacted)
    refused = cli("tier", "repair", topic, "--store", tiered.url, "--yes", "--force")
    assert refused.code == 1
    assert "is compacted" in refused.err


def test_only_the_named_partition_is_repaired(cli: Cli, copied: Tiered, topic: str) -> None:
    for partition in (0, 1):
        copied.manifest(topic, partition).write_bytes(b"")
    repair = ("tier", "repair", topic, "--store", copied.url, "--yes", "--partition")
    cli.ok(*repair, "1")
    assert copied.manifest(topic, 0).read_bytes() == b""
    assert copied.manifest(topic, 1).read_bytes() != b""
    assert "has no partition 2" in cli(*repair, "2").err


def test_a_repair_that_would_leave_offsets_out_must_be_forced(cli: Cli, copied: Tiered, topic: str) -> None:
    copied.manifest(topic).write_bytes(b"garbage")
    copied.segments(topic)[0].unlink()
    second = int(copied.segments(topic)[0].name.split("-")[0])
    repair = ("tier", "repair", topic, "--store", copied.url, "--yes")
    refused = cli(*repair)
    assert (refused.code, f"partition 0: offsets 0 to {second - 1}" in refused.err) == (1, True)
    assert copied.manifest(topic).read_bytes() == b"garbage"
    cli.ok(*repair, "--force", "--partition", "0")
    assert copied.manifest(topic).read_bytes() != b"garbage"


def test_the_manifest_of_another_partition_is_not_replaced(cli: Cli, copied: Tiered, topic: str) -> None:
    foreign = copied.manifest(topic, 1).read_bytes()
    copied.manifest(topic, 0).write_bytes(foreign)
    refused = cli("tier", "repair", topic, "--store", copied.url, "--yes", "--force")
    assert (refused.code, f"belongs to partition 1 of topic {topic}" in refused.err) == (1, True)
    assert copied.manifest(topic, 0).read_bytes() == foreign


@pytest.mark.parametrize(
    ("start", "local_start", "expected"),
    [(0, 30, ((0, 10),)), (15, 30, ()), (10, 40, ((30, 40),)), (0, 5, ((0, 5),)), (35, 40, ((35, 40),))],
)
def test_offsets_that_are_in_neither_tier_are_found(
    start: int, local_start: int, expected: tuple[tuple[int, int], ...]
) -> None:
    tiers = PartitionTiers(Place("t", 0), 1, start, local_start, local_start, 100, 1)
    assert holes(manifest_of(10, 20, 30), tiers) == expected
    assert holes(manifest_of(0), tiers) == ((start, local_start),)


def first_records(tiered: Tiered, topic: str) -> int:
    """Number of records read from the beginning of the log in a second."""
    settings = {"bootstrap.servers": tiered.broker.bootstrap_servers, "group.id": "impatient"}
    consumer = Consumer(settings | {"auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    records = [record for record in consumer.consume(1, timeout=1) if record.error() is None]
    consumer.close()
    return len(records)
