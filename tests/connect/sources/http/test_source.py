"""Rows of a JSON endpoint are written to a topic once each."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.connect.endpoints import ConnectorContext
from barnabas.connect.sources.http import HttpPollSource, PageFeeder
from barnabas.security.authn.credentials import Secret
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.connect.sources.http.feed import TOKEN, Feed, running_feed
from tests.connect.support import connector, consume, headers_of, run_once

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def feed() -> Iterator[Feed]:
    with running_feed() as running:
        yield running


def feeder(spark: SparkSession, tmp_path: Path, feed: Feed, **settings: object) -> PageFeeder:
    source_options = {
        "url": feed.url("/feed"),
        "rows": "data.orders",
        "cursor": "after",
        "next": "meta.next",
    } | settings
    source_options = {"schema": "id BIGINT, name STRING", "token": Secret(TOKEN)} | source_options
    source = HttpPollSource(**source_options)  # type: ignore[arg-type]
    context = ConnectorContext("c", tmp_path, tmp_path.as_uri())
    source.read(spark, context)
    [found] = context.feeders
    assert isinstance(found, PageFeeder)
    found._sleep = lambda seconds: None
    return found


def test_rows_come_once_and_in_order_and_those_that_do_not_fit_are_dead_letters(
    spark: SparkSession, broker: EmbeddedBroker, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, dead, servers = broker.create_topic(), broker.create_topic(), broker.bootstrap_servers
    monkeypatch.setenv("SHOP", TOKEN)
    declared = connector(
        tmp_path,
        f"""
name: orders
from:
  http: {{url: "{feed.url("/feed?kind=all")}", rows: data.orders, cursor: after, next: meta.next,
         schema: "id BIGINT, name STRING", token: "${{env:SHOP}}"}}
to: {{topic: {{topic: {target}, key: id}}}}
errors: {{topic: {dead}}}
""",
        servers,
    )
    feed.add(*({"id": n, "name": f"o{n}"} for n in range(1, 26)))
    run_once(declared, spark)
    feed.add({"id": "six", "name": "x"}, {"id": 27, "name": "last"})
    run_once(declared, spark)
    found = [json.loads(one.value()) for one in consume(servers, target)]
    assert sorted(one["id"] for one in found) == [*range(1, 26), 27]
    [letter] = consume(servers, dead)
    assert any("does not match the schema" in text for text in headers_of(letter).values())
    assert feed.asked[0] == "/feed?kind=all"
    assert feed.asked[1] == "/feed?kind=all&after=10"


def test_request_interrupted_at_any_step_returns_each_row_once(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    def dying(step: str) -> None:
        raise KeyboardInterrupt(step)

    for number, step in enumerate(("noted", "decided")):
        feed.add({"id": number, "name": "a"})
        one = feeder(spark, tmp_path, feed)
        one.incoming.passed = lambda now, step=step: dying(now) if now == step else None  # type: ignore[misc]
        with pytest.raises(KeyboardInterrupt):
            one.fetch()
        feed.add({"id": number + 10, "name": "b"})  # a page requested again is longer
        again = feeder(spark, tmp_path, feed)
        while again.fetch():
            pass
    rows = spark.read.parquet(again.incoming.data).orderBy("_order").collect()
    assert [row.id for row in rows] == [0, 10, 1, 11]


def test_a_cursor_of_the_rows_may_be_answered_with_its_own_row(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.add(*({"id": n} for n in range(1, 13)))
    settings = {"url": feed.url("/list"), "rows": "", "cursor": "since", "next": None, "field": "id"}
    one = feeder(spark, tmp_path, feed, **settings)
    while one.fetch():
        pass
    assert sorted(row.id for row in spark.read.parquet(one.incoming.data).collect()) == list(range(1, 13))


def test_busy_or_interrupted_endpoint_is_retried_and_a_rejection_is_reported(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.add({"id": 1})
    one = feeder(spark, tmp_path, feed)
    feed.faults = [503, 0, 429]
    assert one.fetch()
    feed.add({"id": 2})
    feed.faults = [500] * 4
    with pytest.raises(PipelineError, match="does not respond \\(status 500\\)"):
        one.fetch()
    feed.faults = [404]
    with pytest.raises(PipelineError, match="status 404: check `url`"):
        one.fetch()
    with pytest.raises(PipelineError, match="status 401\\): check `token`"):
        feeder(spark, tmp_path, feed, token=Secret("wrong")).fetch()
    assert one.fetch()
    assert not one.fetch()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"url": "ftp://host/x"}, "`url` of a source `http`"),
        ({"url": "http://user:pw@host/x"}, "set secrets in `token`"),
        ({"next": None}, "either `next`"),
        ({"field": "id"}, "either `next`"),
        ({"timeout": "soon"}, "`timeout`"),
    ],
)
def test_impossible_settings_are_reported(
    spark: SparkSession, feed: Feed, tmp_path: Path, settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(PipelineError, match=sentence):
        feeder(spark, tmp_path, feed, **settings)
