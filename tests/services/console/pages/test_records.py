"""Pages of records: search, one record, tail, produce, edit, replay, export, report."""

from __future__ import annotations

import csv
import io
import json
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from barnabas.security.authz.authorizer import Action, Operation
from barnabas.services.console.access.model import AccessSettings, MaskRule
from barnabas.services.console.users import AnonymousConsoleUser
from barnabas.testing import EmbeddedBroker
from tests.services.console.web import RunningConsole, Web, running_console

HOSTILE = '<script>alert("x")</script>'
VALUES = [
    json.dumps({"id": number, "amount": number / 2, "who": {"name": f"n{number % 3}"}}).encode()
    for number in range(40)
]


@pytest.fixture(scope="module")
def topic(console_broker: EmbeddedBroker) -> str:
    name = console_broker.create_topic("orders", partitions=2)
    producer = Producer({"bootstrap.servers": console_broker.bootstrap_servers})
    for number, value in enumerate(VALUES):
        producer.produce(name, value, b"key-%d" % (number % 5), number % 2, headers=[("n", b"%d" % number)])
    producer.produce(name, HOSTILE.encode(), b"=cmd()", 0, headers=[(HOSTILE, HOSTILE.encode())])
    producer.produce(name, b"\xff\x00", None, 1)
    assert producer.flush(30) == 0
    return name


def test_the_page_of_records_can_search_by_itself(web: Web, topic: str) -> None:
    page = web.api(f"/topics/{topic}/records", find='"name": "n1"', limit=5, wait="true").json
    assert len(page["rows"]) == 5
    assert page["end"]["reason"] == "limit"
    more = web.api(
        f"/topics/{topic}/records", find='"name": "n1"', wait="true", at=page["end"]["continue_at"]
    ).json
    offsets = [(row["partition"], row["offset"]) for row in page["rows"] + more["rows"]]
    assert len(set(offsets)) == len(offsets) == len(VALUES[1::3])


def test_the_stream_gives_hits_and_an_end(web: Web, topic: str) -> None:
    found: list[Any] = []
    for name, data in web.events(f"/topics/{topic}/records/search", where="value.id >= 30"):
        if name == "hits":
            found += data["rows"]
        elif name == "end":
            assert data["reason"] == "done"
    assert sorted(json.loads(hit["value"]["text"])["id"] for hit in found) == list(range(30, 40))


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"where": "value."}, "where"),
        ({"find": "(", "regex": "true"}, "find"),
        ({"since": "yesterdayish"}, "since"),
        ({"partitions": "0-x"}, "partitions"),
        ({"partitions": "7"}, "partitions"),
        ({"partitions": "9" * 5000}, "partitions"),
        (
            {"partitions": ",".join(f"{first}-{first + 9998}" for first in range(0, 90000, 9999))},
            "partitions",
        ),
        ({"since": "@" + "9" * 30}, "since"),
        ({"limit": "0"}, "limit"),
        ({"at": "%%"}, "continue_at"),
        ({"decode": "morse"}, "decode"),
    ],
)
def test_impossible_search_names_the_field(query: dict[str, str], field: str, web: Web, topic: str) -> None:
    answer = web.api(f"/topics/{topic}/records", wait="true", **query)
    assert (answer.status, answer.json["field"]) == (400, field)
    if field not in ("limit", "decode"):
        ((name, data),) = web.events(f"/topics/{topic}/records/search", **query)
        assert (name, data["field"]) == ("failed", field)


def test_numbers_that_no_record_has_are_refused_or_find_nothing(web: Web, topic: str) -> None:
    assert web.api(f"/topics/{topic}/records/0/{10**30}").status == 400
    assert web.api(f"/topics/{topic}/records/0/{10**30}/value").status == 400
    assert web.api(f"/topics/{topic}/records/{2**31}/0").status == 400
    for since in ("1969-12-31T23:59:59.999Z", "0001-01-01", "9" * 320 + "d"):
        everything = web.api(f"/topics/{topic}/records", wait="true", since=since).json
        assert len(everything["rows"]) > 1
    assert web.change("/create-topic", topic="too-large", partitions=10**12).status == 400


def test_a_topic_that_is_not_there_is_not_found(web: Web) -> None:
    assert web.get("/topics/nowhere/records").status == 404
    assert web.get("/topics/nowhere/records/0/0").status == 404


def test_hostile_bytes_are_text_on_every_page(web: Web, topic: str) -> None:
    offset = len(VALUES) // 2
    for path in (
        "records?wait=true",
        f"records/0/{offset}",
        "chart",
        f"produce?partition=0&offset={offset}",
        "tail",
    ):
        answer = web.get(f"/topics/{topic}/{path}")
        assert answer.status == 200, answer.text
        assert HOSTILE not in answer.text
    assert "&lt;script&gt;" in web.get(f"/topics/{topic}/records/0/{offset}").text


def test_one_record_has_a_link_of_its_own(web: Web, topic: str) -> None:
    page = web.api(f"/topics/{topic}/records/1/3").json
    assert json.loads(page["record"]["value"]["text"])["id"] == 7
    assert bytes.fromhex(page["record"]["value"]["hex"]) == VALUES[7]
    assert page["record"]["headers"] == [["n", {"format": "text", "text": "7", "size": 1}]]
    assert web.get(f"/topics/{topic}/records/1/3/value").body == VALUES[7]
    assert web.get(f"/topics/{topic}/records/1/999").status == 404
    assert web.get(f"/topics/{topic}/records/1/-1").status == 400


def test_a_record_is_produced_and_a_copy_of_it_edited(web: Web, console_broker: EmbeddedBroker) -> None:
    name = console_broker.create_topic("written", partitions=3)
    done = web.change(
        f"/topics/{name}/produce",
        key="k",
        value='{"a": 1}',
        encoding="json",
        headers="h: v\nw: x",
        partition=2,
    ).json
    assert (done["topic"], done["partition"], done["offset"]) == (name, 2, 0)
    record = web.api(done["see"]).json["record"]
    assert (record["key"]["text"], record["value"]["text"]) == ("k", '{"a": 1}')
    assert [pair[0] for pair in record["headers"]] == ["h", "w"]
    form = web.api(f"/topics/{name}/produce", partition=2, offset=0).json
    assert (form["key"], form["value"], form["headers"]) == ("k", '{"a": 1}', "h: v\nw: x")
    answer = web.post(f"/topics/{name}/produce", key="", is_null="true", partition="0")
    assert answer.status == 303
    assert "/records/0/0?message=" in answer.headers["location"]
    assert web.api(f"/topics/{name}/records/0/0").json["record"]["value"]["format"] == "null"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"value": "{", "encoding": "json"}, "value"),
        ({"value": "***", "encoding": "base64"}, "value"),
        ({"value": "{}", "encoding": "schema"}, "encoding"),
        ({"value": "x", "headers": "no colon"}, "headers"),
        ({"value": "x", "partition": -1}, "partition"),
    ],
)
def test_unwritable_values_are_rejected_with_their_field(
    fields: dict[str, Any], field: str, web: Web, topic: str
) -> None:
    answer = web.change(f"/topics/{topic}/produce", **fields)
    assert (answer.status, answer.json["field"]) == (400, field)


def test_a_record_is_replayed_as_it_is(web: Web, console_broker: EmbeddedBroker) -> None:
    source, target = (console_broker.create_topic(name, partitions=1) for name in ("from", "to"))
    producer = Producer({"bootstrap.servers": console_broker.bootstrap_servers})
    value = bytes(range(256)) * 1000
    producer.produce(source, value, b"\xff", headers=[("h", b"\xfe"), ("none", None)])
    assert producer.flush(30) == 0
    done = web.change(f"/topics/{source}/records/0/0/replay", target=target).json
    assert (done["topic"], done["offset"]) == (target, 0)
    assert web.get(f"/topics/{target}/records/0/0/value").body == value
    record = web.api(f"/topics/{target}/records/0/0").json["record"]
    assert (record["key"]["hex"], record["headers"][1][1]["format"]) == ("ff", "null")
    assert web.change(f"/topics/{source}/records/0/0/replay", target="nowhere").status == 404


def test_exports_hold_every_record(web: Web, topic: str) -> None:
    lines = [json.loads(line) for line in web.get(f"/topics/{topic}/records/export").text.splitlines()]
    assert len(lines) == len(VALUES) + 2
    assert [line["value_base64"] for line in lines if "value_base64" in line] == ["/wA="]
    rows = list(csv.DictReader(io.StringIO(web.get(f"/topics/{topic}/records/export", format="csv").text)))
    assert len(rows) == len(VALUES) + 2
    assert [row["key"] for row in rows if row["value"] == HOSTILE] == ["'=cmd()"]
    table = pq.read_table(io.BytesIO(web.get(f"/topics/{topic}/records/export", format="parquet").body))
    assert table.num_rows == len(VALUES) + 2
    assert set(table["value"].to_pylist()) == {*VALUES, HOSTILE.encode(), b"\xff\x00"}
    few = web.get(f"/topics/{topic}/records/export", where="value.id < 10", limit=4).text
    assert len(few.splitlines()) == 4


def test_a_download_that_fails_at_once_gets_its_status(web: Web, topic: str) -> None:
    for path in ("/topics/nowhere/records/export", "/topics/nowhere/records/0/0/value"):
        assert web.api(path).status == 404, path
    assert web.api(f"/topics/{topic}/records/0/999999/value").status == 404


def test_the_report_has_the_newest_value_of_each_key_and_curves(web: Web, topic: str) -> None:
    page = web.api(f"/topics/{topic}/chart", where="has(value.id)").json
    newest = {hit["key"]["text"]: json.loads(hit["value"]["text"])["id"] for hit in page["newest"]}
    assert newest == {f"key-{number}": 35 + number for number in range(5)}
    assert [curve["field"] for curve in page["curves"]] == ["amount", "id"]
    assert (page["curves"][0]["lowest"], page["curves"][0]["highest"]) == (0, 19.5)
    assert page["columns"] == ["id", "amount", "who"]
    assert "key-3" in web.get(f"/topics/{topic}/chart").text
    assert web.api(f"/topics/{topic}/chart", seconds=60).status == 400


def test_tail_streams_new_records(web: Web, console: RunningConsole, console_broker: EmbeddedBroker) -> None:
    name = console_broker.create_topic("tail", partitions=1)
    other = console.web()
    for event, data in web.events(f"/topics/{name}/tail/stream"):
        assert event == "hits"
        if data["rows"]:
            assert data["rows"][0]["value"]["text"] == "now"
            break
        with other:
            other.change(f"/topics/{name}/produce", value="now")


class Reader(AnonymousConsoleUser):
    """May read and describe, and nothing else."""

    name = "reader"

    async def allows(self, action: Action) -> bool:
        return action.operation in (Operation.READ, Operation.DESCRIBE)


class Viewer(Reader):
    async def allows(self, action: Action) -> bool:
        return action.operation is Operation.DESCRIBE


@pytest.fixture
def as_user(console: RunningConsole, monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(user: AnonymousConsoleUser) -> None:
        async def who(head: object, match: object) -> AnonymousConsoleUser:
            return user

        monkeypatch.setattr(console.server.gate, "user", who)

    return use


def test_pages_of_records_are_refused_without_the_right_to_read(web: Web, topic: str, as_user: Any) -> None:
    as_user(Viewer())
    for path in (
        "records", "records/search", "records/export", "records/0/0", "records/0/0/value", "tail", "tail/stream",
        "chart",
    ):  # fmt: skip
        answer = web.api(f"/topics/{topic}/{path}")
        assert (answer.status, "READ" in answer.json["error"]) == (403, True), path


def test_nothing_is_written_without_the_right_to_write(web: Web, topic: str, as_user: Any) -> None:
    as_user(Reader())
    assert web.api(f"/topics/{topic}/records/0/0").json["may_write"] is False
    for answer in (
        web.api(f"/topics/{topic}/produce"),
        web.change(f"/topics/{topic}/produce", value="x"),
        web.change(f"/topics/{topic}/records/0/0/replay", target=topic),
    ):
        assert (answer.status, "WRITE" in answer.json["error"]) == (403, True)


@pytest.fixture(scope="module")
def masking(
    console_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningConsole]:
    access = replace(AccessSettings(), masks=(MaskRule(("ord*",), fields=("who.name",)),))
    folder: Path = tmp_path_factory.mktemp("masking")
    with running_console(console_broker.bootstrap_servers, folder, access=access) as running:
        yield running


def test_masked_values_never_leave_the_console(masking: RunningConsole, topic: str) -> None:
    with masking.web() as web:
        for path in (
            "records?wait=true",
            "records/1/3",
            "chart",
            "records/export",
            "records/export?format=csv",
        ):
            text = urllib.parse.unquote(web.ask("GET", f"/api/v1{web.base}/topics/{topic}/{path}").text)
            assert '"n1"' not in text
            assert "n1" not in text.replace("\\", "")
        assert (
            web.api(f"/topics/{topic}/records", wait="true", where="value.who.name == 'n1'").json["rows"]
            == []
        )
        for answer in (
            web.get(f"/topics/{topic}/records/1/3/value"),
            web.get(f"/topics/{topic}/produce?partition=1&offset=3"),
            web.change(f"/topics/{topic}/records/1/3/replay", target="to"),
        ):
            assert answer.status == 403
