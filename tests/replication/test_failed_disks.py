"""A disk of one broker fails: others lead its partitions, and the broker serves the rest."""

from __future__ import annotations

import errno
from pathlib import Path

from tests.replication.test_brokers import Writing, create, read_all
from tests.support.clusters import Brokers
from tests.support.waiting import until


def test_partitions_on_a_failed_disk_are_led_by_others_without_loss(tmp_path: Path) -> None:
    with Brokers(tmp_path, disks=2) as brokers:
        create(brokers, "orders", partitions=2)
        writing = Writing(brokers, "orders")
        writing.write_more(brokers)
        victim = brokers.state("orders", 0).leader
        broker = brokers.brokers[victim]

        async def fail() -> None:
            broker.logs.take_offline(
                broker.replicas.by_name["orders"][0].log, OSError(errno.EIO, "a disk that died")
            )

        brokers.run(fail())
        until(lambda: brokers.state("orders", 0).leader != victim, "nobody takes over")
        assert victim not in brokers.state("orders", 0).isr
        assert victim in brokers.state("orders", 1).isr
        writing.write_more(brokers)
        assert broker.replicas.find("orders", 0) is None
        assert victim not in brokers.state("orders", 0).isr
        writing.finish()
        assert sorted(int(value) for value in read_all(brokers, "orders", 2)) == sorted(writing.acknowledged)
