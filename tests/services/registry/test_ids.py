"""Schemas by id and by guid, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.registry import NEW_FIELDS, Rest

PROTO = 'syntax = "proto3";\nmessage Ids {\n  int32 a = 1;\n}'


def record(name: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": []}


def test_the_text_alone_is_given_as_it_was_registered(rest: Rest) -> None:
    number = rest.register("text-avro", record("Text")).body["id"]
    assert rest.text(f"/schemas/ids/{number}/schema") == '{"type":"record","name":"Text","fields":[]}'
    number = rest.register("text-proto", PROTO, "PROTOBUF").body["id"]
    assert rest.text(f"/schemas/ids/{number}/schema") == PROTO


def test_an_id_knows_its_versions_and_the_deleted_ones_on_request(rest: Rest) -> None:
    number = rest.register("of-b", record("Of")).body["id"]
    rest.register("of-a", record("Of"))
    first, second = {"subject": "of-a", "version": 1}, {"subject": "of-b", "version": 1}
    assert rest.get(f"/schemas/ids/{number}/versions").body == [first, second]
    assert rest.get(f"/schemas/ids/{number}/versions?offset=1&limit=1").body == [second]
    rest.delete("/subjects/of-a")
    assert rest.get(f"/schemas/ids/{number}/versions").body == [second]
    assert rest.get(f"/schemas/ids/{number}/versions?deleted=true").body == [first, second]


def test_a_guid_is_one_for_all_contexts_and_knows_the_ids(rest: Rest) -> None:
    here = rest.register("guids", record("Guids")).body["id"]
    there = rest.register(":.guids:guids", record("Guids")).body["id"]
    guid = rest.get("/subjects/guids/versions/1").body["guid"]
    assert rest.get(f"/schemas/guids/{guid}").body["schema"] == rest.text(f"/schemas/ids/{here}/schema")
    expected = [{"context": ".", "id": here}, {"context": ".guids", "id": there}]
    assert rest.get(f"/schemas/guids/{guid}/ids").body == expected


def test_contexts_are_listed_with_the_default_one_first(rest: Rest) -> None:
    rest.register(":.listed:a", record("Listed"))
    found = rest.get("/contexts").body
    assert found[0] == "."
    assert ".listed" in found
    assert rest.get("/contexts?limit=1").body == ["."]


@pytest.mark.parametrize("path", ["schema", "versions", "subjects"])
def test_unknown_id_is_40403_and_an_invalid_one_404(rest: Rest, path: str) -> None:
    assert rest.get(f"/schemas/ids/987654/{path}").code == 40403
    assert rest.get(f"/schemas/ids/one/{path}").code == 404


def test_unknown_guid_is_40403(rest: Rest) -> None:
    assert rest.get("/schemas/guids/none/ids").code == 40403


def test_an_answer_to_a_body_has_a_guid_for_clients_that_take_new_fields(rest: Rest) -> None:
    number = rest.register("new-fields", record("New")).body["id"]
    guid = rest.get("/subjects/new-fields/versions/latest").body["guid"]
    assert rest.get(f"/schemas/ids/{number}").body["guid"] == guid
    body = {"schema": '{"type":"record","name":"New","fields":[]}'}
    assert set(rest.post("/subjects/new-fields", body).body) == {"subject", "version", "id", "schema"}
    assert rest.post("/subjects/new-fields", body, **NEW_FIELDS).body["guid"] == guid
    registered = rest.post("/subjects/new-fields/versions", body, **NEW_FIELDS).body
    assert registered == {"id": number, "version": 1, "guid": guid}
    assert rest.post("/subjects/new-fields/versions", body).body == {"id": number}
