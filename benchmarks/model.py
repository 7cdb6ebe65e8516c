"""What a row of the table is: subjects to measure, metrics they yield, targets the metrics must meet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.figures import Between, Figure
from benchmarks.session import Session

KAFKA, BARNABAS = "Apache Kafka", "Barnabas"

Figures = Mapping[str, float]
# Measures one subject once: a metric's key -> its value.
Measure = Callable[[Session], Figures]


@dataclass(frozen=True)
class Metric:
    key: str
    unit: str
    digits: int = 0


@dataclass(frozen=True)
class Subject:
    """One contestant of a row."""

    name: str
    measure: Measure


@dataclass(frozen=True)
class Target:
    """A limit on a metric: on the ratio to another subject, or (no `relative_to`) on the figure itself."""

    metric: str
    comparison: Literal[">=", "<="]
    limit: float
    relative_to: str | None = KAFKA
    subject: str = BARNABAS
    # A difference that the rounds show anyway is no difference.
    or_within_spread: bool = False
    # The subject that measures the reference again, after this one: A/B/A.
    again: str | None = None

    def describe(self, unit: str) -> str:
        text = f"{self.comparison} {self.limit:g} {'x' if self.relative_to else unit}"
        if self.relative_to not in (None, KAFKA):
            text += f" {self.relative_to}"
        return text + (" or the spread" if self.or_within_spread else "") + (" or A/A" if self.again else "")

    def met_by(self, figure: Figure, reference: Figure | None) -> bool:
        value = figure.median / reference.median if reference and reference.median else figure.median
        met = self.allows(value)
        if not met and self.or_within_spread and reference is not None:
            return figure.overlaps(reference)
        return met

    def allows(self, value: float) -> bool:
        return value >= self.limit if self.comparison == ">=" else value <= self.limit

    def met_between(self, measured: Between) -> bool:
        """For A/B/A: beyond the limit, and beyond what A differs from itself, it is missed."""
        if self.comparison == ">=":
            return measured.ratio >= min(self.limit, 1 / measured.by_chance)
        return measured.ratio <= max(self.limit, measured.by_chance)


def nothing_to_prepare(session: Session) -> None:
    """For rows whose every measurement starts from an empty topic."""


def nothing_is_missing() -> str | None:
    """For rows that need no more than the others."""
    return None


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    subjects: tuple[Subject, ...]
    metrics: tuple[Metric, ...]
    targets: tuple[Target, ...] = ()
    prepare: Callable[[Session], None] = nothing_to_prepare
    # Why this row cannot be measured on this machine, if so: something that it compares with is not installed.
    missing: Callable[[], str | None] = nothing_is_missing
    # One unmeasured run first, for compilers and caches. Pointless where a process is started again.
    warm_up: bool = True
    # A figure that cannot vary between rounds, such as the memory at the end of the whole run.
    once: bool = False
    # A name for the brokers that rows one after the other have in common: they are stopped after the last of them.
    shares: str | None = None
    # More than the usual number of rounds, where a difference of a few per cent counts.
    least_rounds: int = 1

    def rounds(self, usual: int) -> int:
        """How many; a single one, which tries the harness, stays a single one."""
        return 1 if self.once or usual == 1 else max(usual, self.least_rounds)

    def metric(self, key: str) -> Metric:
        return next(metric for metric in self.metrics if metric.key == key)
