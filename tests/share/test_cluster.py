"""Share groups over several brokers: partitions, share state and group on different ones, which are killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.protocol.internal_topics import SHARE_GROUP_STATE
from barnabas.testing import EmbeddedCluster
from tests.share.test_with_clients import WorkerProcess, publish, set_group
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    require_zookeeper()
    settings = {"zookeeper.session.timeout.ms": "3000", "min.insync.replicas": "2"}
    with EmbeddedCluster(brokers=3, settings=settings) as running:
        yield running


def test_every_record_is_done_while_the_brokers_that_keep_them_die(cluster: EmbeddedCluster) -> None:
    bootstrap = cluster.bootstrap_servers
    topic = cluster.create_topic(partitions=3)
    values = {str(number) for number in range(600)}
    set_group(bootstrap, "crew", share_auto_offset_reset="earliest")
    workers = [WorkerProcess(bootstrap, "crew", topic) for _ in range(2)]

    def done() -> set[str]:
        return {value for worker in workers for value in worker.done}

    try:
        publish(bootstrap, topic, sorted(values)[:200])
        until(lambda: len(done()) > 50)
        leaders = {cluster.leader_of(topic, index) for index in range(3)}
        keeper = cluster.leader_of(SHARE_GROUP_STATE)
        assert leaders != {keeper}, "nothing goes from broker to broker"
        cluster.kill(keeper)
        publish(bootstrap, topic, sorted(values)[200:400])
        until(lambda: len(done()) > 300)
        cluster.brokers[keeper].start()
        publish(bootstrap, topic, sorted(values)[400:])
        until(lambda: done() == values)
    finally:
        for worker in workers:
            worker.kill()
