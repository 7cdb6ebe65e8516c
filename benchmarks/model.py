"""Model of the table: a row has subjects to measure, metrics they yield, and targets for the metrics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.figures import Between, Figure
from benchmarks.session import Session

KAFKA, BARNABAS = "Apache Kafka", "Barnabas"

Figures = Mapping[str, float]
# Measures one subject once; returns values by metric key.
Measure = Callable[[Session], Figures]


@dataclass(frozen=True)
class Metric:
    key: str
    unit: str
    digits: int = 0


@dataclass(frozen=True)
class Subject:
    """One system or configuration measured in a row."""

    name: str
    measure: Measure


@dataclass(frozen=True)
class Target:
    """A limit on a metric: on the ratio to another subject, or (no `relative_to`) on the figure."""

    metric: str
    comparison: Literal[">=", "<="]
    limit: float
    relative_to: str | None = KAFKA
    subject: str = BARNABAS
    # Accept a difference within the spread of the rounds.
    or_within_spread: bool = False
    # Subject that repeats the reference measurement after this one: A/B/A.
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
        """For A/B/A: missed only if the ratio exceeds both the limit and the difference between the two As."""
        if self.comparison == ">=":
            return measured.ratio >= min(self.limit, 1 / measured.by_chance)
        return measured.ratio <= max(self.limit, measured.by_chance)


def nothing_to_prepare(session: Session) -> None:
    """Default for rows whose measurements each start from an empty topic."""


def nothing_is_missing() -> str | None:
    """Default for rows without further requirements."""
    return None


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    subjects: tuple[Subject, ...]
    metrics: tuple[Metric, ...]
    targets: tuple[Target, ...] = ()
    prepare: Callable[[Session], None] = nothing_to_prepare
    # Reason why this row cannot be measured on this machine, such as a missing program; None if it can.
    missing: Callable[[], str | None] = nothing_is_missing
    # Unmeasured first run, for compilers and caches. Useless for rows that start a new process.
    warm_up: bool = True
    # Measured once, since it cannot vary between rounds, such as memory at the end of the run.
    once: bool = False
    # Name for brokers that consecutive rows share; they are stopped after the last of these rows.
    shares: str | None = None
    # Minimum number of rounds, for rows where a few per cent matter.
    least_rounds: int = 1

    def rounds(self, usual: int) -> int:
        """Number of rounds; a single round, used to test the harness, stays single."""
        return 1 if self.once or usual == 1 else max(usual, self.least_rounds)

    def metric(self, key: str) -> Metric:
        return next(metric for metric in self.metrics if metric.key == key)
