"""Delivery of alarms to a real server and a real broker, which may be unavailable."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer

from barnabas.pipelines.alarms.state import AlarmEvent, PipelineAlarm, WindowValue
from barnabas.pipelines.alarms.targets import AlarmDelivery
from barnabas.pipelines.definitions.settings import AlarmRule, AlarmTargets
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.pipelines.alarms.flaky_webhook import FlakyWebhook, flaky_webhook
from tests.support.programs import free_port

RULE = AlarmRule(dataset="d", name="slow", value="max(x)", window="10s", above=10)
EVENTS = PipelineAlarm(RULE).take([WindowValue("k", 0.0, 10.0, 11.0), WindowValue("k", 10.0, 20.0, 1.0)])
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def webhook() -> Iterator[FlakyWebhook]:
    with flaky_webhook() as server:
        yield server


def targets(bootstrap: str = NOWHERE, **more: Any) -> AlarmDelivery:
    options = {name: more.pop(name) for name in list(more) if name in ("listener", "topic_seconds")}
    return AlarmDelivery(AlarmTargets(**{"log": False, **more}), bootstrap, webhook_seconds=30.0, **options)


def test_a_webhook_that_fails_first_is_called_until_it_takes_the_alarms(webhook: FlakyWebhook) -> None:
    webhook.answers = [503, 500, 429]
    assert targets(webhook=webhook.url).call_webhook(EVENTS) == []
    assert webhook.asked == 4
    assert webhook.told == [[(event.id, event.status) for event in EVENTS]]


def test_a_webhook_that_was_away_before_is_called_once(webhook: FlakyWebhook) -> None:
    webhook.answers = [503]
    assert targets(webhook=webhook.url).call_webhook(EVENTS, once=True) == EVENTS
    assert webhook.asked == 1


def test_notification_rejected_by_a_webhook_is_returned_immediately(webhook: FlakyWebhook) -> None:
    webhook.answers = [404]
    assert targets(webhook=webhook.url).call_webhook(EVENTS) == EVENTS
    assert webhook.asked == 1


def test_cve_2025_27817_a_webhook_cannot_lead_to_another_server(webhook: FlakyWebhook) -> None:
    with flaky_webhook() as other:
        webhook.answers, webhook.location = [307], other.url
        assert targets(webhook=webhook.url).call_webhook(EVENTS) == EVENTS
        assert (webhook.asked, other.asked) == (1, 0)


def test_a_server_that_is_away_hands_everything_back() -> None:
    address = f"http://127.0.0.1:{free_port()}/alarms"
    assert targets(webhook=address).call_webhook(EVENTS, once=True) == EVENTS


def test_topic_with_an_unavailable_broker_fails_after_all_others_were_answered() -> None:
    received: list[AlarmEvent] = []
    there = targets(f"127.0.0.1:{free_port()}", topic="alarms", listener=received.extend, topic_seconds=0.5)
    with pytest.raises(PipelineError, match="2 alarms could not be written to the topic alarms"):
        there.tell(EVENTS)
    assert received == EVENTS


def test_a_topic_gets_each_alarm_under_its_id(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()
    targets(broker.bootstrap_servers, topic=topic).tell(EVENTS)
    reader = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    reader.subscribe([topic])
    try:
        found = reader.consume(len(EVENTS), timeout=60)
    finally:
        reader.close()
    assert [record.key() for record in found] == [event.id.encode() for event in EVENTS]
    assert [msgspec.json.decode(record.value() or b"", type=AlarmEvent) for record in found] == EVENTS
