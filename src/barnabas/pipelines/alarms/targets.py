"""Where alarms go: to a webhook, to the log, to a listener, and to a topic.

Each hears of an alarm at least once. What the webhook did not take is handed back, to be tried again with a later
batch. A topic that does not take an alarm fails the batch, which Spark runs again: a pipeline without its broker cannot
go on anyway. It comes last, so that everybody else has heard by then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import msgspec

from barnabas.client import Producer, ProducerSettings
from barnabas.client.errors import ClientError
from barnabas.client.security import PLAINTEXT, ClientSecurity
from barnabas.common.errors import KafkaError
from barnabas.common.http_client import HttpError, fetch
from barnabas.common.retry import Backoff, Deadline
from barnabas.pipelines.alarms.state import AlarmEvent
from barnabas.pipelines.definitions.settings import AlarmTargets
from barnabas.spark import BrokerLink, PipelineError

logger = logging.getLogger(__name__)

WEBHOOK_SECONDS = 10.0  # for all attempts of a batch: later windows wait meanwhile
WEBHOOK_TIMEOUT = 5.0  # seconds for one attempt
TOPIC_SECONDS = 60.0  # as long as a broker may take to come back
TRY_LATER = frozenset({408, 425, 429})
Target = Callable[[Sequence[AlarmEvent]], None]


class AlarmDelivery:
    """All targets of a pipeline; `listener` shows alarms in the terminal."""

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
        """What it did not take, all or nothing; after several attempts, or one where it was away before."""
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
        """The log, the listener, then the topic, whose failure is raised."""
        if not events:
            return
        if self._targets.log:
            _to_log(events)
        if self._listener is not None:
            self._listener(events)
        if self._targets.topic is not None:
            self._to_topic(self._targets.topic, events)

    def _to_topic(self, topic: str, events: Sequence[AlarmEvent]) -> None:
        """Keyed by the alarm's id: in a compacted topic the last word on each alarm stays."""
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
    """Again and again until the deadline, but once at least; not again what the server refuses for good.

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
