"""How a metric is declared: its kind, its name, its words, its labels."""

from __future__ import annotations

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
