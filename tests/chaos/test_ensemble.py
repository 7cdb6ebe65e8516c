"""Three ZooKeeper servers, as docs/clusters.md recommends, with one server lost."""

from collections.abc import Iterator

import pytest

from tests.chaos import librdkafka
from tests.chaos.cluster import ChaosCluster
from tests.chaos.faults import ENSEMBLE_FAULTS, Fault
from tests.chaos.matrix import run_one
from tests.support.zookeeper import require_zookeeper

SLACK = 3.0  # tests share their machine
IN_CI = {"kill the ensemble's leader"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    require_zookeeper()
    with ChaosCluster(tmp_path_factory.mktemp("ensemble"), zookeepers=3) as running:
        yield running


def _cases() -> Iterator[object]:
    for fault in ENSEMBLE_FAULTS:
        yield pytest.param(fault, id=fault.name, marks=[] if fault.name in IN_CI else [pytest.mark.extended])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", list(_cases()))
def test_nothing_acknowledged_is_lost_and_no_broker_restarts_when_we(
    cluster: ChaosCluster, fault: Fault
) -> None:
    number = 1 + ENSEMBLE_FAULTS.index(fault)
    assert run_one(cluster, fault, librdkafka.IdempotentLoad, number, SLACK).problem == ""
    assert all(broker.is_running for broker in cluster.brokers.values())
