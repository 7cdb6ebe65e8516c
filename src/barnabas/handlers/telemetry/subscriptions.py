"""Client metrics subscriptions: the configs of `client-metrics` resources.

A client gets the metrics of all subscriptions that match it, at the shortest of their intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.regex import compile_for_long_texts
from barnabas.common.types import Uuid
from barnabas.config.definitions import CLIENT_METRICS

EVERYTHING = "*"
DEFAULT_INTERVAL_MS = int(CLIENT_METRICS["interval.ms"].default or 0)


class Attributes(NamedTuple):
    """Attributes of a client that a subscription's `match` can select, under Kafka's names."""

    client_instance_id: str
    client_id: str | None
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class ClientMetrics(NamedTuple):
    """Metrics and interval for one client."""

    metrics: tuple[str, ...]
    interval_ms: int

    def subscription_id(self, instance_id: Uuid) -> int:
        """Return a signed 32-bit id that differs for other metrics, another interval or another client."""
        text = ",".join(self.metrics) + str(self.interval_ms)
        number = crc32c(text.encode()) ^ crc32c(instance_id)
        return number - (1 << 32) if number >= 1 << 31 else number


@dataclass(frozen=True, slots=True)
class MetricsSubscription:
    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[tuple[str, Any], ...]  # a selector of `Attributes`, and an RE2 pattern

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> MetricsSubscription:
        """Create a subscription from the validated settings of a resource."""
        values = {
            name: setting.parse(settings.get(name, setting.default or ""))
            for name, setting in CLIENT_METRICS.items()
        }
        return cls(values["metrics"], values["interval.ms"], tuple(map(_selector, values["match"])))  # type: ignore[arg-type]

    def matches(self, client: Attributes) -> bool:
        return all(
            (text := getattr(client, selector)) is not None and pattern.fullmatch(text)
            for selector, pattern in self.match
        )


def _selector(text: str) -> tuple[str, Any]:
    name, _, expression = text.partition("=")
    return name.strip(), compile_for_long_texts(expression.strip())


def wanted_of(client: Attributes, subscriptions: Iterable[MetricsSubscription]) -> ClientMetrics:
    metrics: set[str] = set()
    interval_ms = DEFAULT_INTERVAL_MS
    for subscription in subscriptions:
        if subscription.matches(client):
            metrics.update(subscription.metrics)
            interval_ms = min(interval_ms, subscription.interval_ms)
    return ClientMetrics((EVERYTHING,) if EVERYTHING in metrics else tuple(sorted(metrics)), interval_ms)
