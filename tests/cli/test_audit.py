from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.cli.audit import describe_event
from barnabas.security.authz.audit import TOPIC
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli
from tests.support.waiting import until


@pytest.fixture(scope="module")
def audited() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"barnabas.audit.topic.enable": "true"}) as broker:
        yield broker


def test_the_last_events_are_shown(audited: EmbeddedBroker) -> None:
    cli = Cli(audited.bootstrap_servers)
    audited.create_topic("orders")
    audited.create_topic("payments")
    partitions = audited.broker.replicas.by_name
    until(lambda: TOPIC in partitions and partitions[TOPIC][0].log.log_end_offset >= 2)
    (last,) = cli.ok("audit", "tail", "-n", "1", "-o", "json").out.splitlines()
    assert '"resource": "payments"' in last
    lines = cli.ok("audit", "tail").out.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("allowed  User:ANONYMOUS from 127.0.0.1 CreateTopics: CREATE TOPIC orders")


def test_events_are_formatted_as_lines() -> None:
    start = {"time": "2026-11-17T04:00:00.000+00:00", "node": 1}
    assert describe_event({**start, "event": "lost", "count": 7}).endswith("broker 1  7 events were lost")
    login = {"event": "login", "principal": None, "host": "10.0.0.1", "mechanism": "PLAIN", "allowed": False}
    assert describe_event({**start, **login}).endswith(
        "DENIED  unknown user from 10.0.0.1 logs in with PLAIN"
    )
