"""Where alarms go: to a topic, to a webhook and to the log. One that fails does not keep them from the others."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Callable, Sequence

import msgspec

from barnabas.client.producer import Producer
from barnabas.client.security.settings import PLAINTEXT, Security
from barnabas.pipelines.alarms.state import AlarmEvent
from barnabas.pipelines.broker_link import BrokerLink
from barnabas.pipelines.definitions.settings import AlarmTargets

logger = logging.getLogger(__name__)

WEBHOOK_TIMEOUT = 10.0  # seconds: an alarm must not hold up the stream that it watches
Target = Callable[[Sequence[AlarmEvent]], None]


class Targets:
    """All targets of a pipeline; `listener` is whoever shows alarms in the terminal."""

    def __init__(
        self,
        targets: AlarmTargets,
        bootstrap: str,
        listener: Target | None = None,
        security: Security = PLAINTEXT,
    ) -> None:
        self._all: list[Target] = []
        if targets.topic is not None:
            self._all.append(lambda events: _to_topic(bootstrap, security, str(targets.topic), events))
        if targets.webhook is not None:
            self._all.append(lambda events: _to_webhook(str(targets.webhook), events))
        if targets.log:
            self._all.append(_to_log)
        if listener is not None:
            self._all.append(listener)

    def __call__(self, events: Sequence[AlarmEvent]) -> None:
        for target in self._all if events else ():
            try:
                target(events)
            except Exception:
                logger.exception("%d alarms could not be delivered", len(events))


def _to_topic(bootstrap: str, security: Security, topic: str, events: Sequence[AlarmEvent]) -> None:
    """Keyed by the alarm's id: in a compacted topic the last word on each alarm stays."""
    link = BrokerLink(bootstrap, client_id="barnabas-alarms", security=security)
    try:
        link.run(_produce(link, topic, events))
    finally:
        link.close()


async def _produce(link: BrokerLink, topic: str, events: Sequence[AlarmEvent]) -> None:
    async with Producer(link.client) as producer:
        for event in events:
            await producer.enqueue(topic, msgspec.json.encode(event), event.id.encode())


def _to_webhook(url: str, events: Sequence[AlarmEvent]) -> None:
    body = msgspec.json.encode({"alarms": list(events)})
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=WEBHOOK_TIMEOUT):
        pass


def _to_log(events: Sequence[AlarmEvent]) -> None:
    for event in events:
        level = logging.WARNING if event.status == "fired" else logging.INFO
        logger.log(level, "alarm: %s", event.sentence())
