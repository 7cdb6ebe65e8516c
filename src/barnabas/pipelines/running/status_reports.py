"""Reports the status of pipelines and connectors to `__barnabas_status` of their brokers, and polls requests to
connectors, from a background thread, so that an unreachable broker blocks nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from barnabas.client import CONNECT_TOPIC, ClientError, ConnectorRequest, ConnectorRequests
from barnabas.client.status import REPORT_SECONDS, ProcessStatus, State, StatusReporter
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.pipelines.connection import security_of
from barnabas.pipelines.definitions.files import BOOTSTRAP, DEFAULT_BOOTSTRAP
from barnabas.spark import BrokerLink

POLL_SECONDS = 0.5
REQUESTS_SECONDS = 2.0
"""Between two polls for requests to a connector."""

logger = safe_logger(__name__)


class PipelineReport(NamedTuple):
    client_id: str
    configuration: Mapping[str, str]
    """Connection settings of its brokers."""
    look: Callable[[], ProcessStatus]
    hear: Callable[[ConnectorRequest], None] | None = None
    """Gets the newest request to the connector after each poll."""


class Reports(threading.Thread):
    def __init__(self, reported: Sequence[PipelineReport]) -> None:
        super().__init__(name="status", daemon=True)
        self._each = [_Report(*one) for one in reported]
        self._stopping = threading.Event()

    def run(self) -> None:
        """Report every few seconds, at once after a change of state, and a last time at the end."""
        while not self._stopping.wait(POLL_SECONDS):
            for one in self._each:
                one.report_if_due()
                one.listen_if_due()
        for one in self._each:
            one.report()
            one.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join(2 * REPORT_SECONDS * (1 + len(self._each)))


class _Report:
    def __init__(
        self,
        client_id: str,
        settings: Mapping[str, str],
        look: Callable[[], ProcessStatus],
        hear: Callable[[ConnectorRequest], None] | None,
    ) -> None:
        self._look = look
        self._hear = hear
        self._link = BrokerLink(
            settings.get(BOOTSTRAP, DEFAULT_BOOTSTRAP),
            client_id=client_id,
            total_timeout=REPORT_SECONDS,
            security=security_of(settings),
        )
        self._reporter = StatusReporter(self._link.client, look)
        self._name = look().name
        self._requests = ConnectorRequests(self._link.client, self._name)
        self._was_refused = False
        self._listen_due = 0.0
        self._state: State | None = None
        self._due = 0.0

    def report_if_due(self) -> None:
        if time.monotonic() >= self._due or self._look().state != self._state:
            self.report()

    def report(self) -> None:
        self._state = self._look().state
        self._link.run(self._reporter.report())
        self._due = time.monotonic() + REPORT_SECONDS

    def listen_if_due(self) -> None:
        if self._hear is None or time.monotonic() < self._listen_due:
            return
        try:
            newest = self._link.run(self._requests.newest()).get(self._name)
            self._was_refused = False
        except (KafkaError, ClientError, TimeoutError) as error:
            if not self._was_refused:
                logger.warning("requests in %s are not read: %s", CONNECT_TOPIC, error or "no answer in time")
            self._was_refused, newest = True, None
        if newest is not None:
            self._hear(newest)
        self._listen_due = time.monotonic() + REQUESTS_SECONDS

    def close(self) -> None:
        self._link.close()
