"""Delivery of alarms to a webhook, the log, a listener and a topic.

Delivery is at least once. Events that the webhook did not accept are returned and retried with a later batch. If the
topic write fails, the batch fails and Spark repeats it: a pipeline cannot run without its broker anyway. The topic is
written last, after all other targets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import msgspec

from barnabas.client import ClientError, Producer, ProducerSettings
from barnabas.client.security import PLAINTEXT, ClientSecurity
from barnabas.common.errors import KafkaError
from barnabas.common.http_client import HttpError, fetch
from barnabas.common.retry import Backoff, Deadline
from barnabas.pipelines.alarms.state import AlarmEvent
from barnabas.pipelines.definitions.settings import AlarmTargets
from barnabas.spark import BrokerLink, PipelineError

logger = logging.getLogger(__name__)

WEBHOOK_SECONDS = 10.0  # for all attempts of a batch: later windows are blocked in the meantime
WEBHOOK_TIMEOUT = 5.0  # seconds per attempt
TOPIC_SECONDS = 60.0  # time for a broker to recover
TRY_LATER = frozenset({408, 425, 429})
Target = Callable[[Sequence[AlarmEvent]], None]


class AlarmDelivery:
    """All targets of a pipeline; `listener` displays alarms in the terminal."""

    def __init__(
        self,
        targets: AlarmTargets,
        bootstrap: str,
        listener: Target | None = None,
        security: ClientSecurity = PLAINTEXT,
        *,
        webhook_seconds: float = WEBHOOK_SECONDS,
        topic_seconds: float = TOPIC_SECONDS,
    ) -> None:
        self._targets = targets
        self._bootstrap = bootstrap
        self._listener = listener
        self._security = security
        self._webhook_seconds = webhook_seconds
        self._topic_seconds = topic_seconds

    def call_webhook(self, events: Sequence[AlarmEvent], *, once: bool = False) -> list[AlarmEvent]:
        """Return the undelivered events, all or none. Retries unless `once`, for a webhook that already failed."""
        url = self._targets.webhook
        if url is None or not events:
            return []
        try:
            patience = Deadline(0.0 if once else self._webhook_seconds)
            _post(url, msgspec.json.encode({"alarms": list(events)}), patience)
        except OSError as error:
            logger.error(
                "the webhook did not take %d alarms; they are sent again later: %s", len(events), error
            )
            return list(events)
        return []

    def tell(self, events: Sequence[AlarmEvent]) -> None:
        """Send to the log, the listener, then the topic; raises if the topic write fails."""
        if not events:
            return
        if self._targets.log:
            _to_log(events)
        if self._listener is not None:
            self._listener(events)
        if self._targets.topic is not None:
            self._to_topic(self._targets.topic, events)

    def _to_topic(self, topic: str, events: Sequence[AlarmEvent]) -> None:
        """Write events keyed by alarm id: a compacted topic keeps the last event of each alarm."""
        seconds = self._topic_seconds
        link = BrokerLink(
            self._bootstrap, client_id="barnabas-alarms", total_timeout=seconds, security=self._security
        )
        try:
            settings = ProducerSettings(delivery_timeout=seconds)
            link.persist(lambda: _produce(link, topic, events, settings), seconds)
        except (ClientError, KafkaError) as error:
            raise PipelineError(
                f"{len(events)} alarms could not be written to the topic {topic}; they are sent when the pipeline is "
                f"started again: {error}"
            ) from error
        finally:
            link.close()


async def _produce(
    link: BrokerLink, topic: str, events: Sequence[AlarmEvent], settings: ProducerSettings
) -> None:
    async with Producer(link.client, settings) as producer:
        for event in events:
            await producer.enqueue(topic, msgspec.json.encode(event), event.id.encode())


def _post(url: str, body: bytes, deadline: Deadline) -> None:
    """Post with retries until the deadline, at least once; permanent errors are not retried.

    Redirects are not followed: they could lead to a server that only this machine can reach.
    """
    headers, backoff = {"Content-Type": "application/json"}, Backoff()
    while True:
        try:
            fetch(
                url, method="POST", body=body, headers=headers, timeout=WEBHOOK_TIMEOUT, use_proxy=True
            ).raise_for_status()
            return
        except OSError as error:
            if deadline.passed or _is_refusal(error):
                raise
        time.sleep(min(backoff.next_delay(), deadline.remaining))


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, HttpError) and error.status < 500 and error.status not in TRY_LATER


def _to_log(events: Sequence[AlarmEvent]) -> None:
    for event in events:
        level = logging.WARNING if event.status == "fired" else logging.INFO
        logger.log(level, "alarm: %s", event.sentence())
