"""Definition of an alarm: the Prometheus expression and the console's own condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from barnabas.services.console.exporter.watch import ClusterFigures


class Severity(Enum):
    CRITICAL = "critical"
    """Clients cannot read or write, or records may be lost: act now."""
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Area(Enum):
    """Dashboard that shows the alarm."""

    CLUSTER = "cluster"
    TOPICS = "topics"
    GROUPS = "groups"
    PIPELINES = "pipelines"


class Subject(Enum):
    """The affected resource; users who may describe it see the alarm."""

    CLUSTER = "cluster"
    TOPIC = "topic"
    GROUP = "group"


class AlarmFinding(NamedTuple):
    """One affected resource. `name` is unique within the alarm."""

    name: str
    text: str
    subject: Subject = Subject.CLUSTER
    resource: str = ""
    """Topic or group, for authorization and the link."""


Find = Callable[[ClusterFigures], Iterable[AlarmFinding]]


class Alarm(NamedTuple):
    name: str
    area: Area
    severity: Severity
    sentence: str
    action: str
    """Recommended action."""
    expression: str
    """Prometheus expression: one sample per affected resource."""
    seconds: int
    """Duration for which the condition must hold."""
    find: Find | None = None
    """The same condition on the console's figures; None if it needs broker metrics that only Prometheus scrapes."""
