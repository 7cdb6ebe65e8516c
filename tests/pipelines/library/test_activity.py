"""The template `activity`, on generated data: what it counts, beside plain Python."""

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.library.activity.generator import BAD_VALUE, TOPIC
from barnabas.pipelines.library.records import Generated
from barnabas.testing import EmbeddedBroker
from tests.pipelines.library.workbench import START, Workbench

pytestmark = pytest.mark.timeout(300)  # many flows, one after another, on a busy machine

MINUTE = 60_000
GAP = 15 * MINUTE
END_OF_CENTURY = 4_102_444_800_000


def text_of(time: int, unit: int) -> str:
    return datetime.fromtimestamp(time // unit * unit / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def sessions_of(events: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Visitor, number of events and time of the last, for each visit."""
    found: list[tuple[str, int, int]] = []
    by_visitor = defaultdict(list)
    for event in events:
        by_visitor[event["visitor"]].append(event["time"])
    for visitor, times in by_visitor.items():
        number, last = 0, min(times)
        for time in sorted(times):
            if time - last >= GAP and number:
                found.append((visitor, number, last))
                number = 0
            number, last = number + 1, time
        found.append((visitor, number, last))
    return found


def test_every_event_is_counted_as_plain_python_counts_it(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    bench = Workbench("activity", tmp_path / "clicks", broker.bootstrap_servers)
    bench.create_inputs(TOPIC)
    records = bench.generate(1_500, per_second=1.0)
    events = [json.loads(record.value or b"") for record in records]
    # A last event, hours later, closes the visits before it; a broken one goes to the dead letters.
    end = max(event["time"] for event in events) + 3 * 3_600_000
    last = {**events[0], "id": "last", "time": end, "visitor": "the last one"}
    broken = Generated(TOPIC, None, BAD_VALUE, START)
    # Times that no timestamp can hold, or that would close every window for the events that are still to come.
    impossible = [{**events[0], "time": time} for time in (2**63 - 1, END_OF_CENTURY, -1)]
    wrong = [Generated(TOPIC, "x", json.dumps(event).encode(), START) for event in impossible]
    bench.send([*records[:100], broken, *wrong, *records[100:]])
    bench.send_aborted(records[:10])
    bench.run(spark)
    bench.send([Generated(TOPIC, "x", json.dumps(last).encode(), end)])
    runner = bench.run(spark)

    traffic = Counter((text_of(event["time"], MINUTE), event["kind"]) for event in [*events, last])
    counted = bench.latest("activity.traffic")
    assert {tuple(str(key).split("|")): row["count"] for key, row in counted.items()} == traffic

    views: dict[tuple[str, str], list[str]] = defaultdict(list)
    for event in [*events, last]:
        if event["kind"] == "view":
            views[text_of(event["time"], MINUTE), event["page"]].append(event["visitor"])
    pages = {tuple(str(key).split("|")): row for key, row in bench.latest("activity.pages").items()}
    assert {key: (row["views"], row["visitors"]) for key, row in pages.items()} == {
        key: (len(visitors), len(set(visitors))) for key, visitors in views.items()
    }

    terms = Counter((text_of(event["time"], 3_600_000), event["query"]) for event in events if event["query"])
    searches = {
        tuple(str(key).split("|")): row["count"] for key, row in bench.latest("activity.searches").items()
    }
    assert searches == terms

    visits = {(row["visitor"], row["events"]) for row in runner.session.table("sessions").collect()}
    assert visits == {(visitor, number) for visitor, number, _ in sessions_of(events)}
    (total,) = runner.session.table("funnel").groupBy().sum("visits").collect()
    assert total[0] == len(sessions_of(events))

    letters = bench.read("shop.activity.dead-letters")
    assert len(letters) == 1 + len(wrong)
    letter = letters[0]
    assert letter.headers["errors.reason"] == "is an event"
    assert letter.headers["errors.topic"] == "shop.activity"
    assert letter.headers["errors.offset"].isdigit()
