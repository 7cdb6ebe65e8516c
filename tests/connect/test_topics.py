"""Topics as sources and sinks."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.connect.support import connector, consume, headers_of, produce, run_once

pytestmark = pytest.mark.timeout(300)

ORDERS = """
name: {name}
from: {{topic: {{topic: {source}, schema: "id BIGINT, amount STRING, country STRING, card STRING, ts BIGINT"}}}}
transforms:
  - rename: {{ts: time}}
  - mask: {{fields: [card], keep_last: 4}}
  - cast: {{amount: "decimal(10,2)"}}
  - filter: amount > 0
  - route: "{name}.{{country}}"
  - drop: [country]
to: {{topic: {{key: id}}}}
errors: {{topic: {name}.dead}}
"""


def order(number: int, **other: object) -> dict[str, object]:
    return {
        "id": number,
        "amount": f"{number}.5",
        "country": "AT",
        "card": "4929123412341234",
        "ts": 7,
        **other,
    }


def test_rows_are_transformed_and_routed_and_bad_ones_become_letters(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    servers, source, name = broker.bootstrap_servers, broker.create_topic(partitions=2), tmp_path.name
    for country in ("AT", "DE"):
        broker.create_topic(f"{name}.{country}")
    declared = connector(tmp_path, ORDERS.format(name=name, source=source), servers)
    produce(
        servers, source, [(1, order(1)), (2, order(2, country="DE", card="123")), (3, order(3, amount="-1"))]
    )
    produce(servers, source, [(4, order(4, amount="much")), (5, b"no json"), (6, order(6, country=None))])
    run_once(declared, spark)
    produce(servers, source, [(7, order(7)), (8, order(8, country="Ö"))])
    run_once(declared, spark)

    at = consume(servers, f"{name}.AT")
    assert [json.loads(one.value()) for one in at] == [
        {"id": number, "amount": float(f"{number}.5"), "card": "************1234", "time": 7}
        for number in (1, 7)
    ]
    assert [one.key() for one in at] == [b"1", b"7"]
    [de] = consume(servers, f"{name}.DE")
    assert json.loads(de.value())["card"] == "***"
    letters = {one.key(): one for one in consume(servers, f"{name}.dead")}
    assert {key: headers_of(one)["errors.reason"] for key, one in letters.items()} == {
        b"4": "cast: amount is not a valid decimal(10,2): much",
        b"5": "the value is not valid json for the schema",
        b"6": "route: country is null",
        b"8": f"route: not a valid topic name: {name}.?",
    }
    assert letters[b"5"].value() == b"no json"
    assert headers_of(letters[b"5"])["errors.topic"] == source


def test_a_bad_row_without_a_place_for_it_stops_the_connector(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    servers, source, target = broker.bootstrap_servers, broker.create_topic(), broker.create_topic()
    text = f"""
name: strict
from: {{topic: {{topic: {source}, schema: "id BIGINT"}}}}
to: {{topic: {{topic: {target}}}}}
"""
    produce(servers, source, [(1, {"id": 1}), (2, b"no json")])
    with pytest.raises(PipelineError, match="A row of strict is invalid, and the connector h"):
        run_once(connector(tmp_path, text, servers), spark)
    assert consume(servers, target) == []


def test_tombstones_and_raw_records_pass_as_they_are(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    servers, source = broker.bootstrap_servers, broker.create_topic()
    raw, typed = broker.create_topic(), broker.create_topic()
    produce(servers, source, [("a", {"id": 1}), ("a", None)])
    for number, (target, ends) in enumerate({raw: "format: raw", typed: "schema: id BIGINT"}.items()):
        sink = "format: raw" if target == raw else "format: json"
        text = f"""
name: pass-{number}
from: {{topic: {{topic: {source}, {ends}}}}}
to: {{topic: {{topic: {target}, {sink}}}}}
"""
        run_once(connector(tmp_path / str(number), text, servers), spark)
        assert [(one.key(), one.value()) for one in consume(servers, target)] == [
            (b"a", b'{"id": 1}' if target == raw else b'{"id":1}'),
            (b"a", None),
        ]


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (
            "rename: {nothing: x}",
            "`rename`: the rows have no field nothing; they have id, name",
        ),
        ("rename: {name: id}", "`rename` would duplicate the column id"),
        ('filter: "amount > 0"', "cannot apply `filter` to the rows"),
        ('cast: {id: "lots"}', "cannot apply `cast` to the rows"),
    ],
)
def test_invalid_transform_is_reported_before_anything_runs(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, transform: str, text: str
) -> None:
    source = broker.create_topic()
    document = f"""
name: wrong
from: {{topic: {{topic: {source}, schema: "id BIGINT, name STRING"}}}}
transforms: [{{{transform}}}]
to: {{topic: {{topic: {source}}}}}
"""
    with pytest.raises(PipelineError) as caught:
        run_once(connector(tmp_path, document, broker.bootstrap_servers), spark)
    assert text in str(caught.value)
