"""The page of log lines, on lines as the template `logs` writes them."""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.services.console.access.model import AccessSettings, MaskRule
from barnabas.services.console.users import AnonymousConsoleUser
from barnabas.testing import EmbeddedBroker
from tests.services.console.web import Answer, RunningConsole, Web, running_console
from tests.support.waiting import until

HOSTILE = "<script>alert(1)</script> \"' {{ 7*7 }} \u202e"
NOW = int(time.time() * 1000)
LINES = [
    *((f"order {number} placed", "info", NOW - 60_000 + number * 100) for number in range(150)),
    ("payment 17 failed\n  at shop.Pay", "error", NOW - 30_000),
    (HOSTILE, "error", NOW - 20_000),
    ("an hour ago", "error", NOW - 3_700_000),
]


def entry(message: str, level: str, ms: int) -> bytes:
    timestamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms / 1000)) + f".{ms % 1000:03d}Z"
    source = "web-1:/var/log/<b>.log" if message == HOSTILE else "web-1:/var/log/shop.log"
    return json.dumps(
        {"time": timestamp, "source": source, "level": level.upper(), "message": message}
    ).encode()


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with EmbeddedBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for level in ("info", "error"):
            broker.create_topic(f"logs.{level}", partitions=1)
        for message, level, ms in LINES:
            producer.produce(f"logs.{level}", entry(message, level, ms))
        assert producer.flush(30) == 0
        with running_console(broker.bootstrap_servers, tmp_path_factory.mktemp("console")) as running:
            with running.web() as web:
                until(lambda: web.api("/logs").json["total"] == len(LINES), "all lines are kept")
            yield running


def found(web: Web, **query: Any) -> list[str]:
    return [line["message"] for line in web.api("/logs", **query).json["lines"]]


def test_lines_are_found_by_words_levels_and_time_newest_first(web: Web) -> None:
    assert found(web, find="ORDER 17") == ["order 117 placed", "order 17 placed"]
    assert found(web, level="error") == [HOSTILE, "payment 17 failed\n  at shop.Pay", "an hour ago"]
    assert found(web, level="error", since="1h") == [HOSTILE, "payment 17 failed\n  at shop.Pay"]
    assert found(web, find=r"order 1[23]\d ", regex="true", limit=3)[0] == "order 139 placed"
    assert found(web, find="order -placed") == []


def test_facets_are_links_that_choose_and_take_back(web: Web) -> None:
    page = web.api("/logs", find="17").json
    levels = {facet["value"]: facet for facet in page["facets"]["level"]}
    assert {level: facet["count"] for level, facet in levels.items()} == {"info": 2, "error": 1}

    chosen = web.ask("GET", f"/api/v1{web.base}/logs{levels['error']['link']}").json
    assert [line["level"] for line in chosen["lines"]] == ["error"]
    back = web.ask("GET", f"/api/v1{web.base}/logs{chosen['facets']['level'][0]['link']}").json
    assert back["matched"] == 3


def test_pages_follow_one_another(web: Web) -> None:
    first = web.api("/logs", find="order", limit=100).json
    second = web.ask("GET", f"/api/v1{web.base}/logs{first['older_link']}").json
    assert len(first["lines"]) == 100
    assert [line["message"] for line in second["lines"]] == [
        f"order {number} placed" for number in range(49, -1, -1)
    ]
    assert second["older"] == ""


def test_the_histogram_counts_every_line_by_level(web: Web) -> None:
    bars = web.api("/logs", since="2h").json["bars"]
    assert sum(bar["total"] for bar in bars) == len(LINES)
    assert sum(bar["counts"].get("error", 0) for bar in bars) == 3


def test_values_of_clients_are_escaped_on_the_page(web: Web) -> None:
    for page in (web.get("/logs"), web.get("/logs", find="alert", host=HOSTILE, level="error", since="all")):
        assert page.status == 200
        assert "<script>alert" not in page.text
        assert "style=" not in page.text
    text = web.get("/logs", find="alert(1)").text
    assert "&lt;script&gt;<mark>alert(1)</mark>&lt;/script&gt;" in text


def test_a_line_is_shown_between_those_around_it(web: Web) -> None:
    (line,) = web.api("/logs", find='"order 75 "').json["lines"]
    path = f"/logs/{line['topic']}/{line['partition']}/{line['offset']}"
    shown = web.api(path, around=2).json["lines"]
    assert [each["message"] for each in shown if each["topic"] == "logs.info"] == [
        f"order {number} placed" for number in range(73, 78)
    ]
    assert [each["here"] for each in shown].count(True) == 1
    assert 'aria-current="true"' in web.get(path).text
    assert web.get("/logs/logs.info/0/99999").status == 404


@pytest.mark.parametrize(
    ("query", "field", "sentence"),
    [
        ({"find": "a(b", "regex": "true"}, "find", "column 2"),
        ({"find": 'a "b'}, "find", "column 3"),
        ({"level": "loud"}, "level", "levels are"),
        ({"since": "yesterday"}, "since", "not a valid time"),
        ({"until": "tomorrow"}, "until", "not a valid time"),
        ({"before": "x"}, "before", "newest"),
        ({"limit": "many"}, "limit", "limit"),
    ],
)
def test_bad_input_is_reported_with_a_message_and_a_field(
    web: Web, query: dict[str, str], field: str, sentence: str
) -> None:
    answer = web.api("/logs", **query)
    assert answer.status == 400
    assert answer.json["field"] == field
    assert sentence in answer.json["error"]


class Reader(AnonymousConsoleUser):
    """May read some topics."""

    def __init__(self, *topics: str) -> None:
        self._topics = set(topics)

    async def allows(self, action: Action) -> bool:
        return action.operation is Operation.READ and action.name in self._topics

    async def allowed(self, operation: Operation, kind: ResourceType, names: Any) -> set[str]:
        return self._topics & set(names) if operation is Operation.READ else set()


@pytest.fixture
def as_reader_of_info(console: RunningConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    _visit_as(console, monkeypatch, Reader("logs.info"))


def _visit_as(console: RunningConsole, monkeypatch: pytest.MonkeyPatch, user: AnonymousConsoleUser) -> None:
    async def of(*_: Any) -> AnonymousConsoleUser:
        return user

    monkeypatch.setattr(console.server.app.gate, "user", of)


@pytest.mark.usefixtures("as_reader_of_info")
def test_lines_of_topics_that_may_not_be_read_are_neither_shown_nor_counted(web: Web) -> None:
    page = web.api("/logs", topic=["logs.info", "logs.error"]).json
    assert (page["matched"], page["total"], page["topics"]) == (150, 150, ["logs.info"])
    assert [facet["value"] for facet in page["facets"]["level"]] == ["info"]
    assert sum(bar["total"] for bar in page["bars"]) == 150
    assert "not for you" in page["notes"][0]
    assert {line["topic"] for line in web.api("/logs/logs.info/0/75").json["lines"]} == {"logs.info"}
    assert web.api("/logs/logs.error/0/0").status == 403


def test_without_read_on_any_topic_the_page_is_refused(
    console: RunningConsole, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    _visit_as(console, monkeypatch, Reader())
    for answer in (web.api("/logs"), web.get("/logs", find="x"), web.get("/logs/logs.info/0/0")):
        assert answer.status == 403
        assert "READ on" in _sentence(answer)


def _sentence(answer: Answer) -> str:
    return answer.text if answer.headers["content-type"].startswith("text/html") else answer.json["error"]


def test_page_without_topics_explains_the_source_of_lines(tmp_path: Path) -> None:
    with (
        EmbeddedBroker() as broker,
        running_console(broker.bootstrap_servers, tmp_path) as running,
        running.web() as web,
    ):
        assert "barnabas ingest files" in web.get("/logs").text
        assert web.get("/logs/a/0/0").status == 404


def test_folder_in_use_is_reported(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("logs.info")
        with (
            running_console(broker.bootstrap_servers, tmp_path) as first,
            first.web() as web,
        ):
            until(lambda: web.api("/logs").json["topics"], "the first keeps lines")
            with running_console(broker.bootstrap_servers, tmp_path) as second, second.web() as other:
                until(lambda: other.get("/logs").status == 503, "the second cannot")
                assert "another console" in other.get("/logs").text


def test_links_keep_their_query(web: Web) -> None:
    page = web.api("/logs", find="order", since="2h", service="shop.log").json
    assert urllib.parse.parse_qs(page["live_link"][1:]) == {
        "find": ["order"],
        "since": ["2h"],
        "service": ["shop.log"],
        "live": ["true"],
    }


def test_of_a_topic_with_masks_there_are_no_lines(tmp_path: Path) -> None:
    access = AccessSettings(masks=(MaskRule(("logs.*",), fields=("card",)),))
    with EmbeddedBroker() as broker:
        broker.create_topic("logs.info")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("logs.info", entry("card 4000 1234", "info", NOW))
        assert producer.flush(30) == 0
        with (
            running_console(broker.bootstrap_servers, tmp_path, access=access) as running,
            running.web() as web,
        ):
            page = until(
                lambda: (found := web.api("/logs").json)["notes"][0].startswith("Lines of") and found, ""
            )
            assert (page["matched"], page["total"], page["topics"]) == (0, 0, [])
            assert web.api("/logs/logs.info/0/0").status == 403
