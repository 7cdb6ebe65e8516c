"""`barnabas cluster restore`: all brokers are lost, and the cluster comes back from its object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.cli.conftest import Cli
from tests.tiering.lost_cluster import (
    PARTITIONS,
    Lost,
    Store,
    check_restored,
    committed_offsets,
    lose_cluster,
)
from tests.tiering.stores import BUCKET, moto_server


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
        ["clicks", "payments"],
        ["state"],
    )
    assert planned["cluster_id"] == lost.image.cluster_id
    refused = cli(*command, "--yes")
    assert (refused.code, "return empty: state" in refused.err, "--accept-loss" in refused.err) == (
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
