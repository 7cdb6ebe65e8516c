"""One ZooKeeper for all tests of this folder; each test gets a separate chroot."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cluster.zookeeper.process import ZooKeeperProcess
from tests.support.zookeeper import require_zookeeper

_roots = itertools.count(1)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """Skips where there is no Java or no jars; in CI that is a failure."""
    require_zookeeper()
    with ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper")) as process:
        yield process


@pytest.fixture
def root(zookeeper: ZooKeeperProcess) -> str:
    """`HOST:PORT/path` where nothing is yet."""
    return f"{zookeeper.address}/test-{next(_roots)}"


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    """One that the test may stop, wipe and start again; not started yet."""
    require_zookeeper()
    # Sessions have to outlive the time that a JVM takes to start on a busy machine.
    process = ZooKeeperProcess(tmp_path / "zookeeper", settings={"maxSessionTimeout": "60000"})
    yield process
    process.stop()
