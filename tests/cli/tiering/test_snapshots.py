"""`barnabas snapshot`: objects stay in the store until the snapshot is deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.tiering.conftest import RECORDS, Tiered
from tests.support.cli import Cli
from tests.support.waiting import until


@pytest.fixture(scope="module")
def topic(tiered: Tiered) -> str:
    return tiered.topic()


def test_objects_kept_by_a_snapshot_outlive_their_topic_until_the_snapshot_is_deleted(
    cli: Cli, tiered: Tiered
) -> None:
    topic = tiered.topic()
    store = ("--store", tiered.url)
    made = cli.ok("snapshot", "create", "friday", "--topics", topic, *store, "-o", "json").json
    assert (made["state"], made["topics"], made["partitions"]) == ("complete", [topic], 1)
    segments = tiered.segments(topic)
    assert made["bytes"] > 1000 * RECORDS / 3
    (listed,) = cli.ok("snapshot", "list", *store, "-o", "json").json
    assert listed["name"] == "friday"
    assert "friday" in cli.ok("snapshot", "list", *store).out
    cli.ok("topics", "delete", topic, "--yes")
    until(lambda: b'"deleted"' in tiered.manifest(topic).read_bytes(), "the topic is deleted in the store")
    assert tiered.segments(topic) == segments
    assert "Deleted the snapshot friday." in cli.ok("snapshot", "delete", "friday", *store, "--yes").err
    assert tiered.segments(topic) == []
    assert "No snapshots." in cli.ok("snapshot", "list", *store).err


def test_copying_continues_after_a_snapshot(cli: Cli, tiered: Tiered, topic: str) -> None:
    before = len(tiered.segments(topic))
    cli.ok("snapshot", "create", "all", "--store", tiered.url)
    tiered.produce(topic)
    until(lambda: len(tiered.segments(topic)) > before + 1, "copying goes on")
    cli.ok("snapshot", "delete", "all", "--store", tiered.url, "--yes")


def test_impossible_requests_are_reported(cli: Cli, tiered: Tiered, topic: str, tmp_path: Path) -> None:
    create = ("snapshot", "create", "twice", "--topics", topic)
    cli.ok(*create, "--store", tiered.url)
    refusals = {
        "snapshot twice already exists": (*create, "--store", tiered.url),
        "snapshot never does not exist": ("snapshot", "delete", "never", "--yes", "--store", tiered.url),
        "not a valid snapshot name": ("snapshot", "create", "a/b", "--store", tiered.url),
        "it is empty": (*create, "--store", f"file://{tmp_path}"),
        "UNKNOWN_TOPIC": ("snapshot", "create", "x", "--topics", "no-such-topic", "--store", tiered.url),
    }
    for output, arguments in refusals.items():
        ended = cli(*arguments)
        assert (ended.code, output in ended.err) == (1, True), ended
    assert cli("snapshot", "list", "--store", "history").code == 2
    cli.ok("snapshot", "delete", "twice", "--store", tiered.url, "--yes")
