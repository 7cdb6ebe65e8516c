"""The template `recommend` on behaviour with planted preferences, compared with popularity."""

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.library.recommend.generator import BAD_VALUE, preference_of, preference_of_visitor
from barnabas.pipelines.library.records import Generated
from barnabas.testing import EmbeddedBroker
from tests.support.spark.workbench import Workbench

pytestmark = pytest.mark.timeout(600)

EVENTS, LATER = 9_000, 5_000
RESULTS = "recommend.results"
Seen = dict[str, set[str]]


def seen_in(records: list[Generated]) -> Seen:
    found: Seen = defaultdict(set)
    for record in records:
        if record.value != BAD_VALUE:
            event = json.loads(record.value or b"")
            found[event["visitor"]].add(event["item"])
    return found


def results(bench: Workbench) -> dict[str, list[str]]:
    """By key, as a reader of the compacted topic has them."""
    newest = {record.key: record.value for record in bench.read(RESULTS)}
    return {
        key: [each["item"] for each in json.loads(value)["items"]]
        for key, value in newest.items()
        if key is not None and value is not None
    }


def hit_rate(guesses: dict[str, list[str]], before: Seen, after: Seen) -> float:
    """Share of visitors with new views who were recommended the viewed item."""
    new = {visitor: items - before[visitor] for visitor, items in after.items() if visitor in before}
    requested = {visitor: items for visitor, items in new.items() if items}
    return sum(bool(items & set(guesses.get(visitor, ()))) for visitor, items in requested.items()) / len(
        requested
    )


def most_popular(before: Seen) -> dict[str, list[str]]:
    """Baseline: the most viewed items, without those already viewed."""
    ranked = [item for item, _ in Counter(item for items in before.values() for item in items).most_common()]
    return {visitor: [item for item in ranked if item not in items][:10] for visitor, items in before.items()}


@pytest.fixture(scope="module")
def bench(spark: SparkSession, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    folder: Path = tmp_path_factory.mktemp("recommend") / "pipeline"
    settings = {"recommend.topic": broker.create_topic(partitions=2), "recommend.rounds": "5"}
    bench = Workbench("recommend", folder, broker.bootstrap_servers, settings)
    bench.send(bench.generate(EVENTS, per_second=1))
    bench.run(spark)
    return bench


def test_visitors_view_recommended_items_more_often_than_popular_ones(
    bench: Workbench,
) -> None:
    made = bench.generate(EVENTS + LATER, per_second=1)
    before, after = seen_in(made[:EVENTS]), seen_in(made[EVENTS:])
    found = results(bench)
    learnt = {
        key.removeprefix("visitor|"): items for key, items in found.items() if key.startswith("visitor|")
    }
    assert set(learnt) == set(before)
    assert all(len(items) == 10 and not set(items) & before[visitor] for visitor, items in learnt.items())
    ours, popular = hit_rate(learnt, before, after), hit_rate(most_popular(before), before, after)
    assert ours > 1.5 * popular, (ours, popular)
    of_own_taste = [
        preference_of(item) == preference_of_visitor(visitor)
        for visitor, items in learnt.items()
        for item in items
    ]
    assert sum(of_own_taste) / len(of_own_taste) > 0.6


def test_items_that_are_seen_together_are_of_one_taste(bench: Workbench) -> None:
    found = results(bench)
    pairs = [
        (key.removeprefix("item|"), other)
        for key, items in found.items()
        if key.startswith("item|")
        for other in items
    ]
    assert len(pairs) > 1000
    assert sum(preference_of(item) == preference_of(other) for item, other in pairs) / len(pairs) > 0.7
    assert all(item != other for item, other in pairs)


def test_second_run_writes_changes_and_removes_deleted_entries(spark: SparkSession, bench: Workbench) -> None:
    count = len(list(bench.read(RESULTS)))
    bench.run(spark)
    assert len(list(bench.read(RESULTS))) == count
    bench.settings = {**bench.settings, "recommend.days": "-1"}  # dated from tomorrow on
    bench.reload()
    bench.run(spark)
    assert results(bench) == {}
