"""`barnabas tier verify`: valid objects pass, damaged ones are named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.tiering.conftest import Tiered
from tests.support.cli import Cli


@pytest.fixture(scope="module")
def topic(tiered: Tiered) -> str:
    return tiered.topic(partitions=2)


@pytest.fixture
def copied(tiered: Tiered, tmp_path: Path) -> Tiered:
    """The same broker, and a copy of its bucket that may be damaged."""
    return Tiered(tiered.broker, Path(shutil.copytree(tiered.bucket, tmp_path / "copy")))


def test_a_sound_topic_passes(cli: Cli, tiered: Tiered, topic: str) -> None:
    facts = cli.ok("tier", "verify", topic, "--store", tiered.url, "-o", "json").json
    assert facts["findings"] == []
    assert facts["objects"] == len(tiered.segments(topic, 0)) + len(tiered.segments(topic, 1)) > 2
    for row in facts["partitions"]:
        (base,) = tiered.local_segments(topic, row["partition"])
        assert (row["log_start"], row["tiered_end"], row["damaged"]) == (0, base, 0)
    assert "all sound" in cli.ok("tier", "verify", topic, "--store", tiered.url).out


def test_damaged_and_missing_objects_are_named_and_the_exit_code_is_1(
    cli: Cli, copied: Tiered, topic: str
) -> None:
    damaged, missing = copied.segments(topic, 0)[0], copied.segments(topic, 1)[0]
    flip(damaged, 5000)
    missing.unlink()
    ended = cli("tier", "verify", topic, "--store", copied.url, "-o", "json")
    assert ended.code == 1
    found = {finding["partition"]: finding["key"] for finding in ended.json["findings"]}
    assert found == {0: key_of(copied, damaged), 1: key_of(copied, missing)}
    shown = cli("tier", "verify", topic, "--store", copied.url)
    assert shown.code == 1
    assert damaged.name in shown.out
    assert missing.name in shown.out
    assert "2 findings" in shown.out


def test_a_damaged_or_missing_manifest_is_a_finding(cli: Cli, copied: Tiered, topic: str) -> None:
    copied.manifest(topic, 0).write_bytes(b"garbage")
    copied.manifest(topic, 1).unlink()
    ended = cli("tier", "verify", topic, "--store", copied.url)
    assert ended.code == 1
    assert "is damaged" in ended.out
    assert "is missing" in ended.out
    assert f"barnabas tier repair {topic}" in ended.out


def test_the_bucket_of_another_cluster_is_recognized(cli: Cli, copied: Tiered, topic: str) -> None:
    (ours,) = (path.parent for path in copied.bucket.glob("*/topics"))
    ours.rename(copied.bucket / "another-cluster")
    ended = cli("tier", "verify", topic, "--store", copied.url)
    assert ended.code == 1
    assert f"has nothing of topic {topic} of cluster {ours.name}" in ended.err
    assert "another-cluster" in ended.err


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("history", "--store has an unknown scheme"),
        ("file:///no/such/folder", "the folder /no/such/folder does not exist"),
        ("s3://key:secret@bucket", "--store must not contain credentials"),
    ],
)
def test_a_wrong_url_is_refused(cli: Cli, topic: str, url: str, message: str) -> None:
    ended = cli("tier", "verify", topic, "--store", url)
    assert (ended.code, message in ended.err) == (2, True), ended
    assert "secret" not in ended.err


def test_an_empty_bucket_and_an_unknown_topic_are_refused(cli: Cli, tiered: Tiered, tmp_path: Path) -> None:
    topic = tiered.broker.create_topic()
    assert "it is empty" in cli("tier", "verify", topic, "--store", f"file://{tmp_path}").err
    ended = cli("tier", "verify", "no-such-topic", "--store", tiered.url)
    assert (ended.code, "UNKNOWN_TOPIC_OR_PARTITION" in ended.err) == (1, True)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def key_of(tiered: Tiered, path: Path) -> str:
    return str(path.relative_to(tiered.bucket))
