"""Arithmetic of the benchmark: results, ratios and verdicts."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.figures import Between, Figure
from benchmarks.floors.disk_floor import sync_latency
from benchmarks.model import Metric, Row, Subject, Target
from benchmarks.report import MET, MISSED, WITHIN, lines
from benchmarks.runner import RowResult, measure_row, measure_rows
from benchmarks.session import Session
from benchmarks.subjects.brokers import noted_offset


def figures(*rounds: float) -> Figure:
    return Figure(tuple(rounds))


def test_a_figure_is_the_median_of_its_rounds_with_half_their_range_as_spread() -> None:
    figure = figures(90, 100, 130)
    assert figure.median == 100
    assert figure.spread == 0.2
    assert figure.text("records/s") == "100 records/s ±20%"


def test_a_ratio_target_compares_medians() -> None:
    target = Target("rate", ">=", 1.3)
    assert target.met_by(figures(130), figures(100))
    assert not target.met_by(figures(129), figures(100))


def test_absolute_target_depends_only_on_the_value() -> None:
    target = Target("seconds", "<=", 0.5, relative_to=None)
    assert target.met_by(figures(0.5), None)
    assert not target.met_by(figures(0.51), None)


def test_a_difference_within_the_spread_is_no_difference() -> None:
    target = Target("cpu", "<=", 1.15, or_within_spread=True)
    assert target.met_by(figures(1.0, 1.3, 1.5), figures(0.9, 1.0, 1.1))
    assert not target.met_by(figures(1.2, 1.3, 1.5), figures(0.9, 1.0, 1.1))


def test_between_two_measurements_of_the_same_the_rounds_are_compared_one_by_one() -> None:
    measured = Between(figures(110, 240, 99), before=figures(100, 220, 90), after=figures(100, 180, 110))
    assert measured.ratio == 1.1
    assert measured.by_chance == 220 / 180


def test_measurements_may_differ_by_random_variation() -> None:
    target = Target("p99", "<=", 1.1, relative_to="A", subject="B", again="A, again")
    quiet, restless = figures(101, 99, 100), figures(130, 99, 100)
    assert target.met_between(Between(figures(109, 108, 300), quiet, quiet))
    assert not target.met_between(Between(figures(120, 120, 120), quiet, figures(100, 100, 100)))
    assert target.met_between(Between(figures(120, 120, 120), restless, figures(100, 100, 100)))
    assert not target.met_between(Between(figures(150, 150, 150), restless, figures(100, 100, 100)))


def test_a_row_may_want_more_rounds_but_not_when_the_harness_is_tried() -> None:
    row = replace(row_of(), least_rounds=5)
    assert [row.rounds(usual) for usual in (1, 3, 7)] == [1, 5, 7]
    assert replace(row, once=True).rounds(3) == 1


def row_of(*subjects: Subject) -> Row:
    return Row("row", "a row", subjects, (Metric("rate", "/s"),), (Target("rate", ">=", 1.0),))


def test_subjects_alternate_and_each_round_reverses_the_order(session_without_brokers: Session) -> None:
    iterations: list[str] = []

    def subject(name: str) -> Subject:
        def measure(session: Session) -> dict[str, float]:
            iterations.append(name)
            return {"rate": 1.0}

        return Subject(name, measure)

    result = measure_row(row_of(subject("a"), subject("b")), session_without_brokers, 2, lambda text: None)
    assert iterations == ["a", "b", "a", "b", "b", "a"]  # the warm-up first
    assert len(result.values["a"]["rate"]) == 2


def test_rows_that_share_brokers_leave_them_running_until_the_last(
    session_without_brokers: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    monkeypatch.setattr(session_without_brokers, "end_row", lambda: events.append("end"))

    def row(name: str, shares: str | None) -> Row:
        def measure(session: Session) -> dict[str, float]:
            events.append(name)
            return {}

        return replace(row_of(Subject(name, measure)), warm_up=False, shares=shares)

    rows = [row("a", None), row("b", "x"), row("c", "x"), row("d", "y"), row("e", None)]
    list(measure_rows(rows, session_without_brokers, 1, lambda text: None))
    assert " ".join(events) == "a end b c end d end e end"


def test_a_subject_that_fails_is_reported_and_does_not_stop_the_others(
    session_without_brokers: Session,
) -> None:
    def fail(session: Session) -> dict[str, float]:
        raise RuntimeError("no broker")

    row = row_of(Subject("Apache Kafka", lambda session: {"rate": 1.0}), Subject("Barnabas", fail))
    result = measure_row(row, session_without_brokers, 3, lambda text: None)
    assert result.failures == {"Barnabas": "no broker"}
    assert len(result.values["Apache Kafka"]["rate"]) == 3


def test_a_row_is_left_out_with_the_reason_when_something_is_not_installed(
    session_without_brokers: Session,
) -> None:
    row = replace(row_of(), missing=lambda: "RabbitMQ is not installed")
    result = measure_row(row, session_without_brokers, 3, lambda text: None)
    (line,) = lines([result])
    assert line.measured == "left out: RabbitMQ is not installed"
    assert not line.verdict


def test_cleaner_checkpoint_has_the_compacted_offset() -> None:
    checkpoint = "0\n3\nbench-1 0 5\nbench-10 0 700\nbench-10 1 9\n"
    assert noted_offset(checkpoint, "bench-10") == 700
    assert noted_offset(checkpoint, "bench-1") == 5
    assert noted_offset(checkpoint, "bench") == 0


def test_report_lists_the_met_targets() -> None:
    met = RowResult(row_of(), {"Barnabas": {"rate": [2.0]}, "Apache Kafka": {"rate": [1.0]}})
    missed = RowResult(row_of(), {"Barnabas": {"rate": [0.5]}, "Apache Kafka": {"rate": [1.0]}})
    assert [line.verdict for line in lines([met, missed])] == [MET, MISSED]
    assert next(lines([met])).ratio == "2.00 x"


def test_the_disk_alone_is_measured_for_every_record_that_was_appended(tmp_path: Path) -> None:
    figures = sync_latency(tmp_path, per_second=500, seconds=0.2)
    assert figures["samples"] == 100
    assert 0 < figures["p50_us"] <= figures["p99_us"]
    assert list(tmp_path.iterdir()) == []


def test_report_shows_random_variation() -> None:
    target = Target("rate", "<=", 1.1, relative_to="A", subject="B", again="A, again")
    row = replace(
        row_of(*(Subject(name, lambda _: {}) for name in ("A", "B", "A, again"))), targets=(target,)
    )

    def judged(value: float) -> tuple[str, str]:
        values = {"A": {"rate": [10.0]}, "B": {"rate": [value]}, "A, again": {"rate": [14.0]}}
        (line,) = lines([RowResult(row, values)])
        return line.ratio, line.verdict

    assert judged(12) == ("1.00 x (A/A 1.40 x)", MET)
    assert judged(15) == ("1.25 x (A/A 1.40 x)", WITHIN)
    assert judged(18) == ("1.50 x (A/A 1.40 x)", MISSED)


def test_a_metric_without_a_target_is_compared_with_kafkas_all_the_same() -> None:
    both = {"Barnabas": {"rate": [3.0]}, "Apache Kafka": {"rate": [2.0]}}
    subjects = (Subject("Apache Kafka", lambda _: {}), Subject("Barnabas", lambda _: {}))
    (line,) = lines([RowResult(replace(row_of(*subjects), targets=()), both)])
    assert (line.ratio, line.target, line.verdict) == ("1.50 x", "", "")
