"""The table of results: printed, and saved as JSON (complete) and Markdown (summary)."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Between, Figure
from benchmarks.model import BARNABAS, KAFKA, Metric, Target
from benchmarks.runner import RowResult

COLUMNS = ("row", "compared with", "measured", "ratio", "target", "")
MET, MISSED = "met", "MISSED"
WITHIN = "within A/A"  # beyond the limit but within the noise: neither met nor missed
GOOD = (MET, WITHIN, "")


@dataclass(frozen=True)
class Line:
    """One metric of one subject, compared with its reference."""

    row: str
    reference: str
    measured: str
    ratio: str
    target: str
    verdict: str

    def cells(self) -> tuple[str, ...]:
        return self.row, self.reference, self.measured, self.ratio, self.target, self.verdict


def lines(results: list[RowResult]) -> Iterator[Line]:
    for result in results:
        yield from _lines_of(result)


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "no reason given")[:80]


def _lines_of(result: RowResult) -> Iterator[Line]:
    if result.left_out is not None:
        yield Line(result.row.title, "", f"left out: {result.left_out}", "", "", "")
    for where, reason in result.failures.items():
        yield Line(result.row.title, "", f"{where}: failed", "", "", _first_line(reason))
    shown: set[tuple[str | None, str]] = set()
    for target in result.row.targets:
        line = _target_line(result, target)
        if line is not None:
            yield line
            compared = (target.subject, target.relative_to or KAFKA, target.again)
            shown.update((subject, target.metric) for subject in compared)
    for metric in result.row.metrics:
        if not shown & {(BARNABAS, metric.key), (KAFKA, metric.key)}:
            line = _compared_line(result, metric)
            if line is not None:
                yield line
                shown.update({(BARNABAS, metric.key), (KAFKA, metric.key)})
        for subject in result.row.subjects:
            if (subject.name, metric.key) not in shown:
                yield from _figure_line(result, subject.name, metric)


def _target_line(result: RowResult, target: Target) -> Line | None:
    metric = result.row.metric(target.metric)
    figure = result.figure(target.subject, target.metric)
    reference_name = target.relative_to or KAFKA
    reference = result.figure(reference_name, target.metric)
    if figure is None or (reference is None and target.relative_to):
        return None
    ratio, verdict = _judged(result, target, figure, reference)
    return Line(
        _title(result, target.subject, BARNABAS),
        _with_name(reference_name, KAFKA, reference.text(metric.unit, metric.digits)) if reference else "",
        figure.text(metric.unit, metric.digits),
        ratio,
        target.describe(metric.unit),
        verdict,
    )


def _judged(result: RowResult, target: Target, figure: Figure, reference: Figure | None) -> tuple[str, str]:
    """The ratio as text, and the verdict."""
    again = result.figure(target.again, target.metric) if target.again else None
    if again is not None and reference is not None:
        measured = Between(figure, reference, again)
        return f"{measured.ratio:.2f} x (A/A {measured.by_chance:.2f} x)", _verdict_between(target, measured)
    ratio = f"{figure.median / reference.median:.2f} x" if reference and reference.median else ""
    is_met = target.met_by(figure, reference if target.relative_to else None)
    return ratio, MET if is_met else MISSED


def _verdict_between(target: Target, measured: Between) -> str:
    if target.allows(measured.ratio):
        return MET
    return WITHIN if target.met_between(measured) else MISSED


def _compared_line(result: RowResult, metric: Metric) -> Line | None:
    """A metric of both brokers without a target."""
    barnabas, kafka = (result.figure(subject, metric.key) for subject in (BARNABAS, KAFKA))
    if barnabas is None or kafka is None or not kafka.median:
        return None
    reference, measured = (figure.text(metric.unit, metric.digits) for figure in (kafka, barnabas))
    return Line(result.row.title, reference, measured, f"{barnabas.median / kafka.median:.2f} x", "", "")


def _figure_line(result: RowResult, subject: str, metric: Metric) -> Iterator[Line]:
    figure = result.figure(subject, metric.key)
    if figure is not None:
        text = figure.text(metric.unit, metric.digits)
        yield Line(result.row.title, "", _with_name(subject, BARNABAS, text), "", "", "")


def _title(result: RowResult, subject: str, usual: str) -> str:
    return result.row.title if subject == usual else f"{result.row.title} ({subject})"


def _with_name(name: str, usual: str, text: str) -> str:
    return text if name == usual else f"{name}: {text}"


def print_table(results: list[RowResult], console: Console) -> None:
    table = Table(*COLUMNS, title="Barnabas compared with Apache Kafka 4.3.1", row_styles=["", "dim"])
    title = ""
    for line in lines(results):
        style = "red" if line.verdict not in GOOD else None
        row, *cells = line.cells()
        table.add_row("" if row == title else row, *cells, style=style)
        title = row
    console.print(table)


def save(results: list[RowResult], about: dict[str, str], folder: Path) -> Path:
    """Write two files named after the current time; return the Markdown one."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S")
    (folder / f"{stem}.json").write_text(json.dumps(_as_json(results, about), indent=1) + "\n")
    path = folder / f"{stem}.md"
    path.write_text(_as_markdown(results, about))
    return path


def _as_json(results: list[RowResult], about: dict[str, str]) -> dict[str, object]:
    return {
        "about": about,
        "rows": {
            result.row.name: {"values": result.values, "failures": result.failures} for result in results
        },
        "lines": [asdict(line) for line in lines(results)],
    }


def _as_markdown(results: list[RowResult], about: dict[str, str]) -> str:
    head = [
        "# Barnabas compared with Apache Kafka 4.3.1",
        "",
        *(f"- {name}: {value}" for name, value in about.items()),
        "",
        "Median of the rounds, ± half their range. Ratios are Barnabas / Kafka unless a row says otherwise.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
    ]
    return "\n".join([*head, *(f"| {' | '.join(line.cells())} |" for line in lines(results))]) + "\n"
