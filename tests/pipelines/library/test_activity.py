"""The template `activity` on generated data, compared with plain Python."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.library.activity.generator import BAD_VALUE, TOPIC
from barnabas.pipelines.library.records import Generated
from barnabas.testing import EmbeddedBroker
from tests.support.spark.workbench import HOUR, START, Workbench

pytestmark = pytest.mark.timeout(300)  # many flows, one after another, on a busy machine

MINUTE = 60_000
GAP = 15 * MINUTE
LATENESS = 5 * MINUTE
END_OF_CENTURY = 4_102_444_800_000
Event = dict[str, Any]


class Visit(NamedTuple):
    visitor: str
    start: int
    end: int
    events: int
    views: int
    carted: int
    ordered: int
    amount: float | None


def text_of(time: int, unit: int) -> str:
    return datetime.fromtimestamp(time // unit * unit / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def rounded_sum(amounts: Iterable[float | None]) -> float | None:
    """As SQL has it: of no amounts there is no sum."""
    settings = [amount for amount in amounts if amount is not None]
    return round(math.fsum(settings), 2) if settings else None


def visit_of(events: list[Event]) -> Visit:
    kinds = Counter(event["kind"] for event in events)
    return Visit(
        events[0]["visitor"],
        events[0]["time"],
        events[-1]["time"] + GAP,
        len(events),
        kinds["view"],
        int("cart" in kinds),
        int("order" in kinds),
        rounded_sum(event["amount"] for event in events),
    )


def visits_of(events: list[Event]) -> list[Visit]:
    by_visitor: dict[str, list[list[Event]]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event["time"]):
        visits = by_visitor[event["visitor"]]
        if not visits or event["time"] - visits[-1][-1]["time"] >= GAP:
            visits.append([])
        visits[-1].append(event)
    return sorted(visit_of(visit) for visits in by_visitor.values() for visit in visits)


def funnel_of(visits: list[Visit]) -> list[tuple[int, int, int, int, float | None]]:
    by_hour: dict[int, list[Visit]] = defaultdict(list)
    for visit in visits:
        by_hour[visit.start // HOUR * HOUR].append(visit)
    return sorted(
        (
            hour,
            len(found),
            sum(visit.carted or visit.ordered for visit in found),
            sum(visit.ordered for visit in found),
            rounded_sum(visit.amount for visit in found),
        )
        for hour, found in by_hour.items()
    )


class LateEvents(NamedTuple):
    """Events at a known watermark, in windows that depend on it."""

    watermark: int
    all: list[Event]

    @classmethod
    def around(cls, watermark: int, guest: str) -> "LateEvents":
        """`guest` has an open visit."""
        made = [
            {"time": watermark, "visitor": guest, "kind": "view", "page": "/hats"},
            {"time": watermark - 1, "visitor": "late-1", "kind": "order", "page": "/bags", "amount": 10.1},
            {"time": watermark - 1, "visitor": "late-2", "kind": "search", "page": "/", "query": "sandals"},
            {"time": watermark - GAP, "visitor": "late-3", "kind": "view", "page": "/sale"},
            {"time": watermark - GAP + 1, "visitor": "late-4", "kind": "cart", "page": "/sale"},
            {"time": START - HOUR // 2, "visitor": "late-5", "kind": "search", "page": "/", "query": "hats"},
        ]
        empty = {"query": None, "amount": None}
        return cls(watermark, [{"id": f"l{number}", **empty, **event} for number, event in enumerate(made)])

    def in_time(self, unit: int) -> list[Event]:
        """Those whose window of that length was still open."""
        return [event for event in self.all if event["time"] // unit * unit + unit > self.watermark]

    def in_open_visits(self) -> list[Event]:
        return [event for event in self.all if event["time"] + GAP > self.watermark]


def as_record(event: Event) -> Generated:
    return Generated(TOPIC, event["visitor"], json.dumps(event).encode(), event["time"])


def test_every_event_is_counted_as_plain_python_counts_it(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    bench = Workbench("activity", tmp_path / "clicks", broker.bootstrap_servers)
    bench.create_inputs(TOPIC)
    records = bench.generate(1_500, per_second=1.0)
    events = [json.loads(record.value or b"") for record in records]
    # The newest event of the first run begins a minute, so the watermark does too: windows end exactly at it.
    newest = max(events, key=lambda event: event["time"])
    events.append({**newest, "time": newest["time"] // MINUTE * MINUTE + MINUTE, "visitor": "on the minute"})
    late = LateEvents.around(events[-1]["time"] - LATENESS, newest["visitor"])
    # A last event, hours later, closes earlier visits; an invalid one becomes a dead letter.
    last = {**events[0], "id": "last", "time": newest["time"] + 3 * HOUR, "visitor": "the last one"}
    broken = Generated(TOPIC, None, BAD_VALUE, START)
    # Times outside of the timestamp range, or that would close every window for later events.
    impossible = [{**events[0], "time": time} for time in (2**63 - 1, END_OF_CENTURY, -1)]
    half = {**events[0], "amount": "a lot"}  # all of an event but for one field
    wrong = [Generated(TOPIC, "x", json.dumps(event).encode(), START) for event in (*impossible, half)]
    bench.send([*records[:100], broken, *wrong, *records[100:], as_record(events[-1])])
    bench.send_aborted(records[:10])
    first = bench.run(spark)
    assert {flow.late for flow in first.flows.values()} == {0}
    bench.send(map(as_record, [*late.all, last]))
    runner = bench.run(spark)

    by_minute = [*events, *late.in_time(MINUTE), last]
    traffic = Counter((text_of(event["time"], MINUTE), event["kind"]) for event in by_minute)
    counted = bench.latest("activity.traffic")
    assert {tuple(str(key).split("|")): row["count"] for key, row in counted.items()} == traffic

    views: dict[tuple[str, str], list[str]] = defaultdict(list)
    for event in by_minute:
        if event["kind"] == "view":
            views[text_of(event["time"], MINUTE), event["page"]].append(event["visitor"])
    pages = {tuple(str(key).split("|")): row for key, row in bench.latest("activity.pages").items()}
    assert {key: (row["views"], row["visitors"]) for key, row in pages.items()} == {
        key: (len(visitors), len(set(visitors))) for key, visitors in views.items()
    }

    by_hour = [*events, *late.in_time(HOUR)]
    terms = Counter((text_of(event["time"], HOUR), event["query"]) for event in by_hour if event["query"])
    searches = {
        tuple(str(key).split("|")): row["count"] for key, row in bench.latest("activity.searches").items()
    }
    assert searches == terms

    visits = visits_of([*events, *late.in_open_visits()])
    table = runner.session.table("sessions").selectExpr(
        "visitor", "unix_millis(start)", "unix_millis(end)", "events", "views", "carted", "ordered", "amount"
    )
    assert sorted(Visit(*row) for row in table.collect()) == visits
    funnel = runner.session.table("funnel").selectExpr(
        "unix_millis(hour)", "visits", "with_cart", "with_order", "turnover"
    )
    assert sorted(tuple(row) for row in funnel.collect()) == funnel_of(visits)

    # Late events are counted: each has a separate window and key, so each is a row.
    assert {name: flow.late for name, flow in runner.flows.items()} == {
        "traffic": len(late.all) - len(late.in_time(MINUTE)),
        "pages": 1,
        "searches": 1,
        "sessions": len(late.all) - len(late.in_open_visits()),
        **{name: 0 for name in runner.flows if name.endswith(".dead_letters")},
    }
    assert (len(late.all), len(late.in_time(MINUTE)), len(late.in_open_visits())) == (6, 1, 4)

    letters = bench.read("shop.activity.dead-letters")
    assert len(letters) == 1 + len(wrong)
    letter = letters[0]
    assert letter.headers["errors.reason"] == "is an event"
    assert letter.headers["errors.topic"] == "shop.activity"
    assert letter.headers["errors.offset"].isdigit()
