"""Expensive request bodies: small before the login, cheap afterwards."""

from __future__ import annotations

import contextlib
import http.client
import json
import tracemalloc
import urllib.parse
from collections.abc import Iterator

import msgspec
import pytest

from barnabas.services.console.errors import BadInputError
from barnabas.services.console.requests import FORM, MAX_BODY, MAX_BODY_BEFORE_LOGIN, read_fields, read_struct
from barnabas.testing import EmbeddedBroker
from tests.services.console.access.people import logged_in, with_roles
from tests.services.console.web import JSON, RunningConsole, running_console
from tests.support.extremes import Steps, sparing

MAX_STEP = 0.02  # seconds of CPU
MAX_MEMORY = MAX_BODY + (64 << 20)


class Query(msgspec.Struct):
    topic: str = ""
    topics: list[str] = []


FORMS = {
    "percent signs": b"topic=" + b"%" * (MAX_BODY - 6),
    "escapes": b"topic=" + b"%41" * (MAX_BODY // 3 - 2),
    "escapes and text": b"topic=" + b"%41ab" * (MAX_BODY // 5 - 2),
    "separators": b"&" * MAX_BODY,
    "pluses": b"topic=" + b"+" * (MAX_BODY - 6),
}
DOCUMENTS = {
    "an unknown array": b'{"x":[' + b"[]," * (MAX_BODY // 3 - 4) + b"0]}",
    "an array of the wrong type": b'{"topics":[' + b"[]," * (MAX_BODY // 3 - 6) + b"0]}",
    "unknown names": b"{" + b",".join(b'"%x":0' % number for number in range(MAX_BODY // 9)) + b"}",
    "depth": b'{"x":' + b"[" * (MAX_BODY - 6),
}


@pytest.fixture(scope="module")
def console(
    console_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningConsole]:
    folder = tmp_path_factory.mktemp("console")
    with running_console(console_broker.bootstrap_servers, folder, access=with_roles()) as running:
        with logged_in(running, "admin") as web:  # the first request imports the handler's modules
            web.ask("POST", f"{web.base}/create-topic", b"{}", **{"Content-Type": JSON})
        yield running


def bodies() -> list[tuple[str, str, bytes]]:
    forms = [(name, FORM, body) for name, body in FORMS.items()]
    return [*forms, *((name, JSON, body) for name, body in DOCUMENTS.items())]


@pytest.mark.parametrize(
    ("name", "kind", "body"), bodies(), ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_hostile_body_takes_little_memory(name: str, kind: str, body: bytes) -> None:
    tracemalloc.start()
    try:
        with contextlib.suppress(BadInputError):
            read_struct(Query, {}, kind, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_MEMORY


@pytest.mark.parametrize(
    ("name", "kind", "body"), bodies(), ids=lambda each: each if isinstance(each, str) else ""
)
def test_no_body_holds_the_loop(
    console: RunningConsole, monkeypatch: pytest.MonkeyPatch, name: str, kind: str, body: bytes
) -> None:
    with logged_in(console, "admin") as web, sparing():
        steps = Steps(monkeypatch)
        answer = web.ask("POST", f"{web.base}/create-topic", body, **{"Content-Type": kind})
        monkeypatch.undo()
    assert answer.status < 500
    assert steps.longest < MAX_STEP, steps.what


def test_before_the_login_a_body_of_16_kib_is_the_largest(console: RunningConsole) -> None:
    with console.web() as web:
        at_the_limit = b"name=viewer&password=wrong&next=/" + b"x" * MAX_BODY_BEFORE_LOGIN
        answer = web.ask("POST", "/login", at_the_limit[:MAX_BODY_BEFORE_LOGIN], **{"Content-Type": FORM})
        assert answer.status == 401
    with console.web() as web:
        answer = web.ask("POST", "/login", at_the_limit, **{"Content-Type": FORM})
        assert answer.status == 413
        assert "16,384 bytes" in answer.text


def test_without_a_login_nothing_of_a_body_is_waited_for(console: RunningConsole) -> None:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(console.url).netloc, timeout=60)
    connection.putrequest("POST", "/api/v1/c/default/create-topic")
    connection.putheader("Content-Length", "1000000")
    connection.putheader("Content-Type", JSON)
    connection.endheaders(b"{")
    with connection.getresponse() as answer:
        assert answer.status == 401
    connection.close()


def test_a_form_is_read_as_urllib_reads_it() -> None:
    for text in (
        "a=1&b=%C3%A4+%2B&a=%31%",
        "=x&y",
        "a=%zz%4&b=%%41",
        "x=" + "%41" * 50_000,
        "x=" + "%" * 70_000 + "41",
    ):
        assert read_fields(text.encode()) == urllib.parse.parse_qs(text, keep_blank_values=True)


def test_json_is_read_as_it_is() -> None:
    body = json.dumps({"topics": ["a", "b"], "topic": None, "other": {"deep": [1]}}).encode()
    assert read_struct(Query, {}, JSON, body) == Query("", ["a", "b"])
    with pytest.raises(BadInputError) as refused:
        read_struct(Query, {}, JSON, b'{"topics": [1]}')
    assert refused.value.field == "topics[0]"
