"""Too large, too deep or invalid input gets an error code and a message."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.support.registry import Rest

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


def nested_records(depth: int, leaf: str) -> Any:
    kind: Any = leaf
    for number in range(depth):
        field = {"name": "child", "type": ["null", kind], "default": None}
        kind = {"type": "record", "name": f"Level{number}", "fields": [field]}
    return kind


def nested_alternatives(depth: int, leaf: str) -> Any:
    schema: Any = {"type": leaf}
    for _ in range(depth):
        schema = {"anyOf": [schema, {"type": "null"}]}
    return schema


@pytest.mark.parametrize(
    ("kind", "nested", "depth"), [("AVRO", nested_records, 32), ("JSON", nested_alternatives, 63)]
)
def test_schemas_as_deep_as_allowed_are_compared(
    rest: Rest, kind: str, nested: Callable[[int, str], Any], depth: int
) -> None:
    subject = f"deep-{kind}"
    assert rest.register(subject, json.dumps(nested(depth, "string")), kind).status == 200
    assert (
        rest.register(subject, json.dumps(nested(depth, "int" if kind == "AVRO" else "integer")), kind).code
        == 409
    )
    assert rest.get(f"/subjects/{subject}/versions/1?format=resolved").status == 200
    assert rest.register(subject, json.dumps(nested(depth + 1, "string")), kind).code == 42201


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/schemas/ids/{'9' * 5000}", 404),
        (f"/schemas/ids/{'9' * 5000}/schema", 404),
        (f"/schemas/ids/{'9' * 5000}/subjects", 404),
        (f"/schemas/ids/{'9' * 5000}/versions", 404),
        ("/schemas/ids/%D9%A3", 404),
        (f"/subjects/x/versions/{'9' * 5000}", 422),
        (f"/subjects/x/versions/{'9' * 5000}/schema", 422),
        (f"/subjects?offset={'9' * 5000}", 404),
        (f"/subjects?limit={'9' * 5000}", 404),
        ("/subjects?limit=1_0", 404),
        ("/subjects?offset=-3", 200),
    ],
)
def test_a_number_of_any_length_is_answered(rest: Rest, path: str, status: int) -> None:
    assert rest.get(path).status == status


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" * 5000, "NaN", "Infinity"])
@pytest.mark.parametrize("word", ["maxLength", "multipleOf", "minimum"])
def test_a_number_that_json_cannot_hold_is_refused(rest: Rest, word: str, number: str) -> None:
    text = f'{{"type":"string","{word}":{number}}}'
    assert rest.register("numbers", text, "JSON").code == 42201
    body = f'{{"schema":"\\"int\\"","metadata":{{"properties":{{"x":{number}}}}}}}'.encode()
    assert rest.post("/subjects/numbers/versions", body).code == 400
    body = f'{{"schema":"\\"int\\"","references":[{{"name":"x","subject":"y","version":{number}}}]}}'.encode()
    assert rest.post("/subjects/numbers/versions", body).code == 400


def test_steps_whose_quotient_no_number_holds_are_compared(rest: Rest) -> None:
    rest.put("/config/steps", {"compatibility": "BACKWARD"})
    steps = ["1e308", "1e-308", "1" + "0" * 400, "3"]
    assert rest.register("steps", '{"type":"number","multipleOf":1}', "JSON").status == 200
    for step in steps:
        assert rest.register("steps", f'{{"type":"number","multipleOf":{step}}}', "JSON").status in (200, 409)


@pytest.mark.parametrize("rules", [5, [1], [{"name": []}], {"a": 1}])
def test_rules_of_any_shape_do_not_end_in_an_error_of_the_server(rest: Rest, rules: Any) -> None:
    body = {"defaultRuleSet": {"domainRules": rules}}
    assert rest.put("/config/rules", body).status == 200
    answer = rest.register("rules", '"int"', ruleSet={"domainRules": rules})
    assert answer.status == 200
    rest.delete("/config/rules")


@pytest.mark.parametrize(
    "name", ["_.proto", "./_.proto", "./a.proto", "a//b.proto", "../a.proto", "/a.proto"]
)
def test_protobuf_reference_cannot_replace_another_file(rest: Rest, name: str) -> None:
    head = 'syntax = "proto3"; '
    assert rest.register("other", f"{head} message Other {{ int32 a = 1; }}", "PROTOBUF").status == 200
    reference = {"name": name, "subject": "other", "version": 1}
    answer = rest.register("main", f"{head} message Main {{}}", "PROTOBUF", references=[reference])
    assert answer.code == 42201
    assert "reference" in answer.body["message"]


def test_a_descriptor_that_no_compiler_makes_is_refused(rest: Rest) -> None:
    file = FileDescriptorProto(name="x.proto", syntax="proto3")
    message = file.message_type.add(name="M")
    entry = message.nested_type.add(name="E")
    entry.options.map_entry = True
    message.field.add(name="f", number=1, type=11, label=3, type_name=".M.E")
    message.field.add(name="g", number=2, type=9, label=1, oneof_index=7)
    text = base64.b64encode(file.SerializeToString()).decode()
    assert rest.register("descriptor", text, "PROTOBUF").code == 42201


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
