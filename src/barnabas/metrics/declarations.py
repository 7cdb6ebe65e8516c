"""How a metric is declared: its kind, its name, its words, its labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Metric(NamedTuple):
    kind: str
    name: str
    help: str
    labels: tuple[str, ...] = ()


def counter(name: str, text: str, *labels: str) -> Metric:
    return Metric("counter", name, text, labels)


def gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric("gauge", name, text, labels)


def metrics_among(names: Mapping[str, object]) -> tuple[Metric, ...]:
    """The metrics that a module declares, in its order."""
    return tuple(value for value in names.values() if isinstance(value, Metric))
