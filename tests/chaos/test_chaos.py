"""A short selection of `make chaos`: brokers are killed, paused and isolated without loss of acknowledged records."""

from collections.abc import Iterator

import pytest

from tests.chaos import java, librdkafka
from tests.chaos.cluster import ChaosCluster
from tests.chaos.faults import FAULTS
from tests.chaos.loads import Load
from tests.chaos.matrix import run_one
from tests.support.zookeeper import require_zookeeper

SELECTION: tuple[tuple[str, type[Load]], ...] = (
    ("kill the leader", java.IdempotentLoad),
    ("restart the controller", librdkafka.TransactionalLoad),
    ("power off for the leader", librdkafka.IdempotentLoad),
    ("kill the coordinator", java.TransactionalLoad),
    ("restart the leader", librdkafka.IdempotentLoad),
    ("pause the controller", librdkafka.IdempotentLoad),
    ("freeze the leader's link to ZooKeeper", java.TransactionalLoad),
    ("fill a disk", librdkafka.TransactionalLoad),
    ("slow down the coordinator's disk", librdkafka.TransactionalLoad),
    ("kill a leader whose disk is slow", librdkafka.IdempotentLoad),
    ("kill two leaders at once", librdkafka.IdempotentLoad),
)
# Faults that the selection covers otherwise: the same fault under another load, or two faults at once.
EXTENDED = {
    "restart the controller",
    "restart the leader",
    "freeze the leader's link to ZooKeeper",
    "slow down the coordinator's disk",  # tests/broker/test_slow_disks.py has disks that are slow
    "kill a leader whose disk is slow",
    "kill two leaders at once",
}
SLACK = 3.0  # tests share their machine; `make chaos` has it for itself
_BY_NAME = {fault.name: fault for fault in FAULTS}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    require_zookeeper()
    with ChaosCluster(tmp_path_factory.mktemp("chaos")) as running:
        yield running


def _cases() -> Iterator[object]:
    for name, load in SELECTION:
        marks = [pytest.mark.java] if load.client == java.CLIENT else []
        marks += [pytest.mark.extended] if name in EXTENDED else []
        yield pytest.param(name, load, id=f"{name}, {load.kind}, {load.client}", marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "load"), list(_cases()))
def test_nothing_acknowledged_is_lost_when_we(cluster: ChaosCluster, name: str, load: type[Load]) -> None:
    number, fault = 1 + SELECTION.index((name, load)), _BY_NAME[name]
    if not fault.is_possible(cluster):
        pytest.skip("only root can mount a small disk")
    assert run_one(cluster, fault, load, number, SLACK).problem == ""
