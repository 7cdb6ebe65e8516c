"""Input that is too large, too deep or simply wrong gets a code and a text, and the registry goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.services.registry.rest import Rest

DEEP = '{"type":"array","items":' * 500 + '"int"' + "}" * 500


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, 400),
        (b"[" * 100_000, 400, 400),
        (b"\xff\xfe", 400, 400),
        (b"[]", 422, 422),
        (b'{"schema": 5}', 422, 42201),
        (b"{}", 422, 42201),
        (b'{"schema": ""}', 422, 42201),
        (b'{"schema": "\\"int\\"", "schemaType": "XML"}', 422, 42201),
        (b'{"schema": "\\"int\\"", "surprise": 1}', 422, 422),
        (b'{"schema": "\\"int\\"", "references": 5}', 422, 422),
        (b'{"schema": "\\"int\\"", "references": [{"name": "x"}]}', 422, 422),
        (b'{"schema": "\\"int\\"", "metadata": []}', 422, 422),
        (b'{"schema": "\\"int\\"", "id": "x"}', 422, 422),
        (b'{"schema": "' + b"x" * (1024 * 1024) + b'"}', 413, 413),
        (json.dumps({"schema": DEEP}).encode(), 422, 42201),
        (json.dumps({"schema": DEEP, "schemaType": "JSON"}).encode(), 422, 42201),
        (json.dumps({"schema": '{"type":"record","name":"1","fields":[]}'}).encode(), 422, 42201),
        (
            json.dumps({"schema": '{"$ref":"http://127.0.0.1:9/x"}', "schemaType": "JSON"}).encode(),
            422,
            42201,
        ),
        (json.dumps({"schema": "message", "schemaType": "PROTOBUF"}).encode(), 422, 42201),
    ],
)
def test_a_bad_body_is_refused(rest: Rest, body: bytes, status: int, code: int) -> None:
    answer = rest.post("/subjects/bad/versions", body)
    assert (answer.status, answer.code) == (status, code)
    assert rest.get("/").status == 200


def test_more_references_than_allowed_are_refused(rest: Rest) -> None:
    references = [{"name": f"n{at}", "subject": "s", "version": 1} for at in range(1001)]
    assert rest.register("many", '"int"', references=references).code == 42201


def test_a_reference_that_leads_back_to_itself_is_refused(rest: Rest) -> None:
    """Only an import can write such a thing."""
    one = json.dumps({"type": "record", "name": "One", "fields": []})
    rest.put("/mode", {"mode": "IMPORT"})
    try:
        rest.register("loop", one, id=900, version=1)
        rest.register(
            "loop", one, id=900, version=2, references=[{"name": "Two", "subject": "loop", "version": 2}]
        )
    finally:
        rest.put("/mode", {"mode": "READWRITE"})
    using = {"type": "record", "name": "Using", "fields": [{"name": "x", "type": "Two"}]}
    answer = rest.register("uses", using, references=[{"name": "Two", "subject": "loop", "version": 2}])
    assert answer.code == 42201


@pytest.mark.parametrize("subject", ["%20", "a%00b", "%0A"])
def test_a_subject_without_a_name_is_refused(rest: Rest, subject: str) -> None:
    assert rest.post(f"/subjects/{subject}/versions", {"schema": '"int"'}).code == 42208


def test_content_types_are_confluents(rest: Rest) -> None:
    ask: Callable[..., Any] = rest.ask
    assert ask("GET", "/subjects", Accept="text/html").code == 406
    assert (
        ask("POST", "/subjects/x/versions", {"schema": '"int"'}, **{"Content-Type": "text/xml"}).code == 415
    )
    assert ask("PATCH", "/subjects", {}).code == 405
    assert ask("GET", "/subjects", Accept="application/json; q=0.5, */*; q=0.1").status == 200
