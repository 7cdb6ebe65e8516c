"""`--publish-metrics TOPIC`: cluster metrics as records, for the pipeline `operations`.

    {"time": 1794900000000, "service": "kafka/default", "host": "box", "kind": "cluster", "tps": 1200.0, "lag": 17}
    {"time": 1794900000000, "service": "kafka/default/topic/orders", "host": "box", "kind": "topic", "tps": 40.0}
    {"time": 1794900000000, "service": "kafka/default/group/billing", "kind": "group", "lag": 17, "lag_seconds": 0.4}

One record per tick for the cluster, each topic and each group; `tps` is records per second, written or committed. A
failure to write is logged once and does not affect curves and pages.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from barnabas.client import Client, ClientError, Producer
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.services.console.exporter.watch import ClusterFigures
from barnabas.services.console.sampling.snapshot import ClusterSnapshot

MAX_REPORTS = 5000
"""Per tick; in larger clusters, further records are omitted."""
SECONDS = 10.0
"""Timeout of a write: the next tick has newer figures."""

_logger = safe_logger(__name__)


def reports(snapshot: ClusterSnapshot, cluster: str) -> Iterator[dict[str, Any]]:
    """Metrics records of a snapshot. Unknown values are omitted."""
    service, totals = f"kafka/{cluster}", snapshot.totals
    numbers = {
        "tps": totals.rate_in,
        "lag": totals.lag,
        "brokers": len(snapshot.brokers),
        "offline": totals.offline,
        "under_replicated": totals.under_replicated,
    }
    yield {"service": service, "kind": "cluster", **_known(numbers)}
    for topic in snapshot.topics.values():
        if not topic.internal:
            numbers = {"tps": topic.rate_in, "bytes": topic.size if topic.size >= 0 else None}
            yield {"service": f"{service}/topic/{topic.name}", "kind": "topic", **_known(numbers)}
    for group in snapshot.groups.values():
        rows = {"tps": group.rate, "lag": group.lag, "lag_seconds": group.lag_seconds}
        yield {"service": f"{service}/group/{group.name}", "kind": "group", **_known(rows)}


def _known(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in numbers.items() if value is not None}


class Publisher:
    """Follower of a watch that writes metrics to a topic."""

    def __init__(self, client: Client, topic: str, cluster: str) -> None:
        self._client = client
        self._topic = topic
        self._cluster = cluster
        self._host = platform.node()
        self._published_ms = 0
        self._refused = False

    async def publish(self, known: ClusterFigures) -> None:
        """Publish a snapshot, unless it was published before."""
        if known.is_stale or known.snapshot.taken_ms == self._published_ms:
            return
        self._published_ms = known.snapshot.taken_ms
        try:
            async with asyncio.timeout(SECONDS):
                await self._write(islice(reports(known.snapshot, self._cluster), MAX_REPORTS))
            self._refused = False
        except (ClientError, KafkaError, OSError, TimeoutError) as error:
            if not self._refused:
                _logger.warning(
                    "metrics are not published to %s: %s", self._topic, error or "no answer in time"
                )
            self._refused = True

    async def _write(self, rows: Iterable[dict[str, Any]]) -> None:
        common = {"time": self._published_ms, "host": self._host}
        async with Producer(self._client) as producer:
            for row in rows:
                value = msgspec.json.encode({**common, **row})
                await producer.enqueue(self._topic, value, row["service"].encode())
