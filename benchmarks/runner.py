"""Measures rows: a warm-up, then rounds that alternate the order of the subjects."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from benchmarks.figures import Figure
from benchmarks.model import Row, Subject
from benchmarks.session import Session


@dataclass
class RowResult:
    row: Row
    # subject -> metric -> one value per round
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    # Reason for skipping the row, which is not a failure.
    left_out: str | None = None

    def add(self, subject: str, figures: dict[str, float]) -> None:
        for metric, value in figures.items():
            self.values.setdefault(subject, {}).setdefault(metric, []).append(value)

    def figure(self, subject: str, metric: str) -> Figure | None:
        rounds = self.values.get(subject, {}).get(metric)
        return Figure(tuple(rounds)) if rounds else None


Progress = Callable[[str], None]


def measure_rows(
    rows: Sequence[Row], session: Session, rounds: int, progress: Progress
) -> Iterator[RowResult]:
    for row, following in zip_longest(rows, rows[1:]):
        yield measure_row(row, session, rounds, progress)
        if row.shares is None or following is None or following.shares != row.shares:
            session.end_row()


def measure_row(row: Row, session: Session, rounds: int, progress: Progress) -> RowResult:
    result = RowResult(row, left_out=row.missing())
    if result.left_out is not None:
        progress(f"{row.title}: left out, {result.left_out}")
        return result
    progress(f"{row.title}: preparing")
    try:
        row.prepare(session)
    except Exception as error:  # a broken row must not affect the others
        result.failures["preparation"] = str(error)
        return result
    if row.warm_up:
        _measure_all(
            row.subjects, session, RowResult(row), result.failures, f"{row.title}: warm-up", progress
        )
    for number in range(row.rounds(rounds)):
        order = row.subjects if number % 2 == 0 else tuple(reversed(row.subjects))
        _measure_all(order, session, result, result.failures, f"{row.title}: round {number + 1}", progress)
    return result


def _measure_all(
    subjects: Iterable[Subject],
    session: Session,
    result: RowResult,
    failures: dict[str, str],
    title: str,
    progress: Progress,
) -> None:
    for subject in subjects:
        if subject.name in failures:
            continue
        progress(f"{title}, {subject.name}")
        session.settle()
        try:
            result.add(subject.name, dict(subject.measure(session)))
        except Exception as error:
            failures[subject.name] = str(error) or type(error).__name__  # a TimeoutError has no message
            progress(f"{title}, {subject.name} failed: {type(error).__name__}: {error}")
