"""`barnabas cluster restore`: a cluster without brokers is restored from its object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli
from tests.support.tiering.lost_cluster import (
    PARTITIONS,
    Lost,
    Store,
    check_restored,
    committed_offsets,
    lose_cluster,
)
from tests.support.tiering.stores import BUCKET, moto_server
from tests.support.waiting import until


@pytest.fixture(scope="module", params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if request.param == "file":
        yield Store(f"file://{tmp_path_factory.mktemp('bucket')}")
        return
    with moto_server() as options:
        yield Store(f"s3://{BUCKET}/production", options)


@pytest.fixture(scope="module")
def lost(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Lost:
    return lose_cluster(store, tmp_path_factory.mktemp("lost") / "data")


@pytest.fixture
def cli() -> Cli:
    return Cli("127.0.0.1:1")  # no broker is asked


def test_topics_records_and_offsets_come_back(cli: Cli, store: Store, lost: Lost, tmp_path: Path) -> None:
    data = tmp_path / "new"
    command = ("cluster", "restore", store.url, "--data", str(data), *store.arguments)
    planned = cli.ok(*command, "--dry-run", "-o", "json").json
    assert (planned["restored"], planned["topics"], planned["empty"]) == (
        False,
        ["accounts", "clicks", "payments"],
        ["state"],
    )
    assert planned["cluster_id"] == lost.image.cluster_id
    assert planned["newest_record_ms"] > 0
    shown = cli.ok(*command, "--dry-run").err
    assert "will be missing: the tail of each partition" in shown
    assert "The newest copied record is of 20" in shown
    refused = cli(*command, "--yes")
    assert (refused.code, "restored empty: state" in refused.err, "--accept-loss" in refused.err) == (
        1,
        True,
        True,
    )
    assert not data.exists()
    done = cli.ok(*command, "--yes", "--accept-loss", "-o", "json").json
    assert (done["restored"], done["incarnation"], done["offsets"]) == (True, 1, PARTITIONS)
    again = cli(*command, "--yes", "--accept-loss")
    assert (again.code, "is not empty" in again.err) == (1, True)
    with EmbeddedBroker(store.settings, data_dir=data) as broker:
        check_restored(lost, broker)
        bounded = {
            index: min(lost.tiered_ends["clicks", index], lost.committed[index]) for index in lost.committed
        }
        assert committed_offsets(broker) == bounded
        broker.restart()
        assert committed_offsets(broker) == bounded


def test_impossible_restores_are_reported(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "photo.jpg").write_bytes(b"not ours")
    (tmp_path / "several").mkdir()
    for name in ("one", "two"):
        (tmp_path / "several" / name).mkdir()
        (tmp_path / "several" / name / "incarnation").write_bytes(b"x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    new = ("--data", str(tmp_path / "new"), "--yes")
    refusals = {
        "no data of Barnabas in": (f"file://{tmp_path}/empty", *new),
        "is this the right bucket": (f"file://{tmp_path}/foreign", *new),
        "several clusters; choose one with --cluster-id:\n  one\n  two": (f"file://{tmp_path}/several", *new),
        "no data of cluster three in": (f"file://{tmp_path}/several", *new, "--cluster-id", "three"),
        "no metadata: the cluster has not written a snapshot yet": (
            f"file://{tmp_path}/several",
            *new,
            "--cluster-id",
            "one",
        ),
        "is not empty and was not changed": (
            f"file://{tmp_path}/several",
            "--data",
            str(tmp_path / "full"),
        ),
    }
    for output, arguments in refusals.items():
        ended = cli("cluster", "restore", *arguments)
        assert (ended.code, output in ended.err) == (1, True), ended
    assert sorted(path.name for path in (tmp_path / "full").iterdir()) == ["notes.txt"]
    assert not (tmp_path / "new").exists()
    result = cli("cluster", "restore", f"file://{tmp_path}/gone", *new)
    assert (result.code, "URL: the folder" in result.err, "does not exist" in result.err) == (
        2,
        True,
        True,
    ), result
    for wrong in (
        ("history", *new),
        (f"file://{tmp_path}/empty",),
        (f"file://{tmp_path}/empty", *new, "-z", "h:1"),
    ):
        assert cli("cluster", "restore", *wrong).code == 2


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_missing_bucket_is_reported(cli: Cli, store: Store, tmp_path: Path) -> None:
    new = ("--data", str(tmp_path / "new"), "--yes")
    missing = cli("cluster", "restore", "s3://no-such-bucket", *new, *store.arguments)
    assert (missing.code, "does not exist" in missing.err) == (1, True), missing


def test_a_node_killed_soon_after_its_start_can_be_restored(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    url = f"file://{tmp_path}/bucket"
    settings = {"remote.log.storage.system.enable": "true", "barnabas.remote.storage.url": url}
    planned = ("cluster", "restore", url, "--data", str(tmp_path / "new"), "--dry-run")
    with EmbeddedBroker(settings, data_dir=tmp_path / "data"):
        # Within less than barnabas.remote.state.interval.ms, a minute.
        until(lambda: cli(*planned).code == 0, seconds=30)
