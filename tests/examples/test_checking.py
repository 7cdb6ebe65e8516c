"""The demo detects and reports wrong results and missing alarms."""

import copy
import io
import itertools
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from rich.console import Console

from barnabas.pipelines.alarms.state import AlarmEvent
from barnabas.pipelines.definitions.files import read_pipeline
from barnabas.pipelines.definitions.settings import AlarmRule
from barnabas.pipelines.definitions.templates import copy_template
from barnabas.pipelines.library.activity import generator as activity
from barnabas.pipelines.library.operations import generator as operations
from examples.demo.alarm_plan import VALUES, closed_until, expected_events, planned
from examples.demo.checking import Check, activity_checks, alarm_checks, operations_checks, warehouse_checks
from examples.demo.expected_counts import Cell, ExpectedCounts
from examples.demo.screen import Screen
from examples.demo.summary import summarize

START = 1_767_261_600_000 + 7_000  # a few seconds into a minute, as a demo begins at any time
RATE = 500 / 60  # reports a second of the services' time, as in the demo
INCIDENTS = [
    operations.Incident(name, START + begin, START + end) for name, begin, end in operations.INCIDENTS
]
Results = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def written() -> ExpectedCounts:
    """40 minutes: both incidents, and the time after them."""
    found = ExpectedCounts()
    for record in itertools.islice(activity.records(1, START, 5.0, 0.01), 10_000):
        found.take(record)
    for record in itertools.islice(operations.records(1, START, RATE), int(40 * 60 * RATE)):
        found.take(record)
    return found


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> list[AlarmRule]:
    folder = tmp_path_factory.mktemp("demo") / "operations"
    copy_template("operations", folder)
    return read_pipeline(folder).settings.alarms


def at(start: int) -> str:
    """As Spark writes a timestamp in JSON."""
    return datetime.fromtimestamp(start / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def row(cell: Cell, name: str, window: str = "minute", **numbers: int) -> dict[str, Any]:
    return {window: at(cell[0]), name: cell[1], **numbers}


def right_results(written: ExpectedCounts) -> Results:
    rows = {
        "activity.traffic": [row(cell, "kind", count=number) for cell, number in written.traffic.items()],
        "activity.pages": [
            row(cell, "page", views=number, visitors=len(written.visitors[cell]))
            for cell, number in written.views.items()
        ],
        "activity.searches": [
            row(cell, "term", "hour", count=number) for cell, number in written.searches.items()
        ],
        "operations.services": [
            row(cell, "service", reports=minute.reports, errors=minute.errors)
            for cell, minute in written.services.items()
        ],
    }
    return {topic: {str(index): each for index, each in enumerate(found)} for topic, found in rows.items()}


def all_counts(written: ExpectedCounts, results: Results, letters: int) -> list[Check]:
    return [*activity_checks(written, results, letters), *operations_checks(written, results)]


def test_results_that_are_right_are_found_right(written: ExpectedCounts) -> None:
    checks = all_counts(written, right_results(written), written.broken)
    assert [check for check in checks if not check.good] == []
    assert all(sum(check.expected.values()) > 0 for check in checks)


@pytest.mark.parametrize(
    ("topic", "number", "what"),
    [
        ("activity.traffic", "count", "activity: events by kind and minute"),
        ("activity.pages", "views", "activity: views by page and minute"),
        ("activity.pages", "visitors", "activity: visitors by page and minute"),
        ("activity.searches", "count", "activity: searches by term and hour"),
        ("operations.services", "reports", "operations: reports by service and minute"),
        ("operations.services", "errors", "operations: failed requests by service and minute"),
    ],
)
def test_counts_that_are_wrong_are_found_though_their_sum_is_right(
    written: ExpectedCounts, topic: str, number: str, what: str
) -> None:
    results = copy.deepcopy(right_results(written))
    results[topic]["0"][number] += 1
    results[topic]["1"][number] -= 1
    (wrong,) = [check for check in all_counts(written, results, written.broken) if not check.good]
    assert sum(wrong.expected.values()) == sum(wrong.found.values())
    assert re.fullmatch(
        rf"{what}: .* at 20\d\d-\d\d-\d\d \d\d:\d\d: -?\d+ expected, -?\d+ found; 1 more differ\.",
        wrong.sentence(),
    )


def test_a_minute_that_is_missing_and_a_letter_too_many_are_found(written: ExpectedCounts) -> None:
    results = right_results(written)
    del results["activity.traffic"]["0"]
    wrong = [check for check in all_counts(written, results, written.broken + 1) if not check.good]
    assert [check.what for check in wrong] == [
        "activity: events by kind and minute",
        "activity: broken records set aside",
    ]
    assert "0 found." in wrong[0].sentence()


def test_rows_of_the_warehouse_are_compared_by_topic_and_place(tmp_path: Path) -> None:
    offsets = [0, 1, 1]
    table = pa.table({"topic": ["shop", "shop", "shop"], "partition": [0, 0, 0], "offset": offsets})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    rows, places = warehouse_checks({"shop": 3}, tmp_path)
    assert rows.good
    assert places.sentence() == "warehouse: different offsets among them: shop: 3 expected, 2 found."


def as_row(event: AlarmEvent) -> dict[str, Any]:
    return {"alarm": event.alarm, "key": event.key, "status": event.status, "at": event.at}


def checks_of_alarms(
    written: ExpectedCounts, rules: list[AlarmRule], received: list[AlarmEvent], topic: list[AlarmEvent]
) -> list[Check]:
    last = {event.id: as_row(event) for event in topic}
    return alarm_checks(written, rules, INCIDENTS, received, last.values())


def events_of(written: ExpectedCounts, rules: list[AlarmRule]) -> list[AlarmEvent]:
    found = expected_events(rules, written.services, closed_until(written.newest_report))
    return sorted(found, key=lambda event: event.at)


def test_every_rule_of_the_template_is_known_to_the_check(rules: list[AlarmRule]) -> None:
    assert {rule.name for rule in rules} == set(VALUES)


def test_alarms_that_fire_and_resolve_as_planned_are_right(
    written: ExpectedCounts, rules: list[AlarmRule]
) -> None:
    events = events_of(written, rules)
    # A target may get an alarm twice when a batch is repeated.
    checks = checks_of_alarms(written, rules, [*events, events[-1]], events)
    assert [check for check in checks if not check.good] == []
    assert sum(checks[0].expected.values()) == 2 * len(INCIDENTS) * len(rules)


def test_a_missing_alarm_and_one_that_does_not_resolve_are_found(
    written: ExpectedCounts, rules: list[AlarmRule]
) -> None:
    events = events_of(written, rules)
    busy = [event for event in events if event.alarm == "busy hosts" and event.key == "search"]
    for missing in (busy, [event for event in busy if event.status == "resolved"]):
        left = [event for event in events if event not in missing]
        checks = checks_of_alarms(written, rules, left, left)
        assert [check.good for check in checks] == [False, False, False]
        assert "busy hosts of search" in checks[0].sentence()
        assert "1 expected, 0 found" in checks[0].sentence()


def test_an_alarm_that_nothing_gives_is_found(written: ExpectedCounts, rules: list[AlarmRule]) -> None:
    events = events_of(written, rules)
    false = AlarmEvent("x", "slow requests", "images", "fired", "critical", 500.0, "> 400", 0.0, 60.0)
    checks = checks_of_alarms(written, rules, [*events, false], events)
    assert [check.good for check in checks] == [True, False, True]
    assert "slow requests of images fired at 1970-01-01 00:01: 0 expected, 1 found" in checks[1].sentence()


def test_events_are_not_expected_without_time_for_them(rules: list[AlarmRule]) -> None:
    incident = INCIDENTS[0]
    before = planned(rules, [incident], incident.begin + 2 * 60_000)
    during = planned(rules, [incident], incident.end)
    assert before == []
    assert {each.status for each in during} == {"fired"}
    short = operations.Incident("checkout", incident.begin, incident.begin + 90_000)
    assert planned(rules, [short], incident.end) == []


def test_summary_reports_errors_as_text(written: ExpectedCounts) -> None:
    output = io.StringIO()
    console = Console(file=output, width=120)
    results = right_results(written)
    results["activity.traffic"]["0"]["count"] += 1
    checks = all_counts(written, results, written.broken)
    summarize(console, checks, Screen(console, 60, 0.0), 6_000, {"traffic": 3})
    assert "1 of 7 checks failed:" in output.getvalue()
    assert "activity: events by kind and minute: view at" in output.getvalue()
    assert "traffic left out 3 rows that came after their windows were closed." in output.getvalue()
    assert "exactly once" not in output.getvalue()
