"""A short selection of `make chaos`: brokers are killed, paused and cut off, and nothing acknowledged is lost."""

from collections.abc import Iterator

import pytest

from tests.chaos.cluster import ChaosCluster
from tests.chaos.faults import FAULTS
from tests.chaos.loads import IdempotentLoad, Load, TransactionalLoad
from tests.chaos.matrix import run_one
from tests.zookeeper import require_zookeeper

SELECTION: tuple[tuple[str, type[Load]], ...] = (
    ("kill the leader", IdempotentLoad),
    ("restart the controller", TransactionalLoad),
    ("power off for the leader", IdempotentLoad),
    ("kill the coordinator", TransactionalLoad),
    ("restart the leader", IdempotentLoad),
    ("pause the controller", IdempotentLoad),
    ("freeze the leader's link to ZooKeeper", TransactionalLoad),
    ("fill a disk", TransactionalLoad),
    ("kill two leaders at once", IdempotentLoad),
)
SLACK = 3.0  # tests share their machine; `make chaos` has it for itself
_BY_NAME = {fault.name: fault for fault in FAULTS}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    require_zookeeper()
    with ChaosCluster(tmp_path_factory.mktemp("chaos")) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "load"), SELECTION, ids=[f"{name}, {load.__name__}" for name, load in SELECTION]
)
def test_nothing_acknowledged_is_lost_when_we(cluster: ChaosCluster, name: str, load: type[Load]) -> None:
    number, fault = 1 + SELECTION.index((name, load)), _BY_NAME[name]
    if not fault.is_possible(cluster):
        pytest.skip("only root can mount a small disk")
    assert run_one(cluster, fault, load, number, SLACK).problem == ""
