"""Masked values cannot be revealed by reading, searching, sorting, counting, charting, copying or exporting."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from barnabas.services.console.access.model import MaskRule
from barnabas.testing import EmbeddedBroker
from tests.services.console.access.people import by_token, with_roles
from tests.services.console.web import RunningConsole, Web, running_console

TOPIC = "payments"
DEAD = "dlq.payments"
SECRETS = [
    {"number": "4711-0815", "amount": 17, "auth": "hidden-token", "key": "alice@example"},
    {"number": "1234-5678-9012-3456", "amount": 90210, "auth": "t", "key": "bob@example"},
    {"number": "9", "amount": 123, "auth": "another-long-token", "key": "c"},
]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    rule = MaskRule((TOPIC,), fields=("card.number", "amount"), headers=("auth",), key=True)
    access = with_roles(masks=(rule, MaskRule((DEAD,), headers=("__connect.errors.exception.message",))))
    with EmbeddedBroker() as broker:
        broker.create_topic(TOPIC)
        broker.create_topic(DEAD)
        folder = tmp_path_factory.mktemp("console")
        with running_console(broker.bootstrap_servers, folder, access=access) as running:
            with by_token(running, "admin") as admin:
                for each in SECRETS:
                    produce(admin, each)
            yield running


def produce(web: Web, secret: dict[str, Any]) -> None:
    value = {"shop": "x", "card": {"number": secret["number"]}, "amount": secret["amount"]}
    fields = {"key": secret["key"], "value": json.dumps(value), "encoding": "json"}
    answer = web.change(f"/topics/{TOPIC}/produce", **fields, headers=f"auth: {secret['auth']}")
    assert answer.status == 200, answer.text


@pytest.fixture
def reader(console: RunningConsole) -> Iterator[Web]:
    with by_token(console, "reader") as web:
        yield web


@pytest.fixture
def admin(console: RunningConsole) -> Iterator[Web]:
    with by_token(console, "admin") as web:
        yield web


def found(web: Web, **filters: Any) -> Any:
    """The rows, and how many records were found."""
    answer = web.api(f"/topics/{TOPIC}/records", wait="true", **filters)
    assert answer.status == 200, answer.text
    return answer.json["rows"]


def shows_a_secret(text: str) -> list[str]:
    words = [str(value) for each in SECRETS for value in each.values() if len(str(value)) > 4]
    return [word for word in words if word in text]


GUESSES = {
    "text": ({"find": "4711-0815"}, {"find": "4711-0816"}),
    "part": ({"find": "4711"}, {"find": "5822"}),
    "regex": ({"find": "card.*4711", "regex": "true"}, {"find": "card.*5822", "regex": "true"}),
    "key": ({"key": "alice@example"}, {"key": "alicf@example"}),
    "beginning of a key": ({"key": "alice*"}, {"key": "alicf*"}),
    "header": ({"header": "auth=hidden-token"}, {"header": "auth=hidden-tokex"}),
    "beginning of a header": ({"header": "auth=hid*"}, {"header": "auth=hie*"}),
    "equal": (
        {"where": 'record.value.card.number == "4711-0815"'},
        {"where": 'record.value.card.number == "4711-0816"'},
    ),
    "prefix": (
        {"where": 'record.value.card.number.startsWith("47")'},
        {"where": 'record.value.card.number.startsWith("58")'},
    ),
    "range": ({"where": "record.value.amount > 100"}, {"where": "record.value.amount > 100000"}),
    "size": (
        {"where": "size(record.value.card.number) > 10"},
        {"where": "size(record.value.card.number) > 100"},
    ),
    "whole text": (
        {"where": 'record.valueAsText.contains("4711")'},
        {"where": 'record.valueAsText.contains("5822")'},
    ),
    "key in CEL": ({"where": 'record.keyAsText == "c"'}, {"where": 'record.keyAsText == "d"'}),
}


@pytest.mark.parametrize("guess", GUESSES)
def test_correct_guess_and_wrong_guess_find_the_same(reader: Web, admin: Web, guess: str) -> None:
    right, wrong = GUESSES[guess]

    assert found(reader, **right) == found(reader, **wrong)
    assert found(admin, **right) != found(admin, **wrong)  # the guess is a right one


def test_masked_records_are_shown_in_the_same_layout(reader: Web, admin: Web) -> None:
    rows = found(reader)
    shown = [(row["key"], row["value"], row["headers"]) for row in rows]

    assert not shows_a_secret(json.dumps(rows))
    assert shown[0] == shown[1] == shown[2]  # neither lengths nor sizes differ
    assert '"shop":"x"' in rows[0]["value"]["text"]
    assert len(shows_a_secret(json.dumps(found(admin)))) == 7


def test_one_record_its_bytes_and_its_copies_are_no_way_around(reader: Web, console: RunningConsole) -> None:
    page = reader.api(f"/topics/{TOPIC}/records/0/0")

    assert page.status == 200
    assert not shows_a_secret(page.text)
    assert reader.api(f"/topics/{TOPIC}/records/0/0/value").status == 403
    with by_token(console, "operator") as operator:
        assert operator.api(f"/topics/{TOPIC}/produce", partition=0, offset=0).status == 403
        assert operator.change(f"/topics/{TOPIC}/records/0/0/replay", target=TOPIC).status == 403


def test_counts_include_only_visible_resources(reader: Web) -> None:
    """A limit, a cursor and the bytes read reveal as much as rows."""
    filters = [{"find": "4711-0815"}, {"find": "4711-0816"}]
    filters += [{"since": f"@{offset}", "until": f"@{offset + 1}"} for offset in range(3)]
    ends = [
        reader.api(f"/topics/{TOPIC}/records", wait="true", limit=1, **each).json["end"] for each in filters
    ]
    for each in ends:
        del each["progress"]["seconds"]
        each.pop("continue_at")
    assert ends[0] == ends[1]
    assert ends[2] == ends[3] == ends[4]


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_an_export_has_nothing_that_is_masked(reader: Web, admin: Web, format_: str) -> None:
    path = f"/topics/{TOPIC}/records/export"
    own, complete = (_text(web.api(path, format=format_).body, format_) for web in (reader, admin))
    right, wrong = (
        _text(reader.api(path, format=format_, find=find).body, format_) for find in ("4711", "5822")
    )

    assert not shows_a_secret(own)
    assert shows_a_secret(complete)
    assert right == wrong


def _text(body: bytes, format_: str) -> str:
    return str(pq.read_table(io.BytesIO(body)).to_pylist()) if format_ == "parquet" else body.decode()


def test_chart_has_no_curve_and_no_row_of_masked_values(reader: Web, admin: Web) -> None:
    own, complete = (web.api(f"/topics/{TOPIC}/chart").json for web in (reader, admin))

    assert not shows_a_secret(json.dumps(own))
    assert own["curves"] == []
    assert len(own["newest"]) == 1  # keys are masked, too: their number is hidden
    assert [curve["field"] for curve in complete["curves"]] == ["amount"]
    assert len(complete["newest"]) == 3


def test_tail_shows_and_filters_visible_values_only(console: RunningConsole) -> None:
    """New records that the guess fits, and records that it does not fit, are passed over alike."""
    with by_token(console, "reader") as web, by_token(console, "admin") as admin:
        events = web.events(f"/topics/{TOPIC}/tail/stream", at="", since="@0", find="shop")
        for _, data in _while_producing(events, admin):
            assert not shows_a_secret(json.dumps(data))
            break


def _while_producing(events: Iterator[tuple[str, Any]], admin: Web) -> Iterator[tuple[str, Any]]:
    """A tail begins at the end: there must be something new."""
    for each in SECRETS:
        produce(admin, each)
    return (event for event in events if event[0] == "hits")


def test_error_of_a_dead_letter_is_hidden_if_the_header_is_masked(reader: Web, admin: Web) -> None:
    headers = f"__connect.errors.topic: {TOPIC}\n__connect.errors.exception.message: card 4711-0815 is bad"
    assert admin.change(f"/topics/{DEAD}/produce", value="v", headers=headers).status == 200
    assert "4711-0815" in admin.api(f"/dead/{DEAD}").text
    for where in ("", "reason=*4711*", "reason=*5822*"):
        refused = reader.api(f"/dead/{DEAD}", where=where)
        assert refused.status == 403
        assert "masked for you" in refused.json["error"]
