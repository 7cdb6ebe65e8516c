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
    """The board that shows it."""

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
    """The topic or the group, for the rights and for the link."""


Find = Callable[[ClusterFigures], Iterable[AlarmFinding]]


class Alarm(NamedTuple):
    name: str
    area: Area
    severity: Severity
    sentence: str
    action: str
    """What to do."""
    expression: str
    """For Prometheus: a sample for each thing that is wrong."""
    seconds: int
    """How long it must hold."""
    find: Find | None = None
    """The same on what the console knows; None: only brokers know, and Prometheus asks them."""
