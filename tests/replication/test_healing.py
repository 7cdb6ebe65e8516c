"""Automatic replica moves for lost and new brokers, with real clients."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from tests.replication.test_brokers import Writing, create, read_all
from tests.support.clusters import Brokers
from tests.support.waiting import until

SETTINGS = {
    "barnabas.replica.replace.after.ms": "300",
    "barnabas.balance.auto": "true",
    "barnabas.balance.quiet.ms": "300",
    "leader.imbalance.check.interval.seconds": "1",
}


def holders(brokers: Brokers) -> set[int]:
    topic = brokers.any.image.topics["orders"]
    return {replica for state in topic.partitions for replica in state.replicas if not state.being_reassigned}


def test_replicas_of_a_lost_broker_are_made_again_and_a_new_broker_gets_its_share(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "barnabas.broker.cluster_control")
    with Brokers(tmp_path, 4, SETTINGS) as brokers:
        create(brokers, "orders", partitions=4)
        writing = Writing(brokers, "orders")
        writing.write_more(brokers)
        lost = next(number for number in brokers.state("orders").replicas if number != brokers.controller)
        brokers.kill(lost)
        until(lambda: lost not in holders(brokers), "nobody replaces it")
        brokers.until_in_sync("orders", 3)
        writing.write_more(brokers)
        brokers.start(lost)
        brokers.start(5)
        until(lambda: {lost, 5} <= holders(brokers), "no broker that has come gets a replica")
        writing.write_more(brokers)
        writing.finish()
        assert sorted(int(value) for value in read_all(brokers, "orders", 4)) == sorted(writing.acknowledged)
    assert re.search(r"reassignments started: \d+ replicas copy [1-9][\d,]* bytes; 0 cancelled", caplog.text)
    assert re.search(r"reassignments completed; about [1-9]\d* bytes were copied", caplog.text)
