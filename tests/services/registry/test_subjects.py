"""Subjects and versions over HTTP, with Confluent's codes."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from tests.support.registry import Rest


def record(*fields: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


NUMBER = {"name": "number", "type": "long"}
NOTE = {"name": "note", "type": "string", "default": ""}


def test_a_schema_has_one_id_in_all_subjects(rest: Rest) -> None:
    first = rest.register("ids-a", record(NUMBER))
    assert rest.register("ids-b", record(NUMBER)).body == first.body
    assert rest.register("ids-a", record(NUMBER)).body == first.body
    assert rest.get("/subjects/ids-a/versions").body == [1]
    assert rest.get(f"/schemas/ids/{first.body['id']}/subjects").body == ["ids-a", "ids-b"]


def test_a_new_version_counts_on_and_the_latest_is_the_newest(rest: Rest) -> None:
    rest.register("versions", record(NUMBER))
    rest.register("versions", record(NUMBER, NOTE))
    latest = rest.get("/subjects/versions/versions/latest").body
    assert (latest["version"], json.loads(latest["schema"])) == (2, record(NUMBER, NOTE))


def test_a_slash_in_a_subject_is_part_of_its_name(rest: Rest) -> None:
    rest.register("orders/eu-value", '"string"')
    assert rest.get("/subjects/orders%2Feu-value/versions").body == [1]
    assert rest.get("/subjects/orders/eu-value/versions").status == 404


def test_an_object_around_a_primitive_type_is_the_type(rest: Rest) -> None:
    rest.register("primitive", {"type": "string"})
    assert rest.get("/subjects/primitive/versions/1").body["schema"] == '"string"'
    assert rest.post("/subjects/primitive", {"schema": '"string"'}).body["version"] == 1


def test_an_incompatible_schema_is_refused_with_409(rest: Rest) -> None:
    rest.register("refused", record(NUMBER))
    answer = rest.register("refused", record({"name": "number", "type": "string"}))
    assert (answer.status, answer.code) == (409, 409)
    assert answer.body["message"].startswith(
        "Incompatible schema, compatibility_mode=BACKWARD. Incompatibilities: reader type: string"
    )


def test_invalid_schema_is_reported_with_its_position(rest: Rest) -> None:
    answer = rest.register("broken", record({"name": "x", "type": "strin"}))
    assert (answer.status, answer.code) == (422, 42201)
    assert answer.body["message"].startswith("Invalid AVRO schema. Error: ")
    assert "$.fields[0].type" in answer.body["message"]
    assert "line 1 column" in rest.register("broken", '{"type": ').body["message"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/subjects/nobody/versions", 404, 40401),
        ("/subjects/codes/versions/9", 404, 40402),
        ("/subjects/codes/versions/zero", 422, 42202),
        ("/subjects/codes/versions/0", 422, 42202),
        ("/schemas/ids/987654", 404, 40403),
        ("/schemas/guids/none", 404, 40403),
        ("/config/codes", 404, 40408),
        ("/mode/codes", 404, 40409),
        ("/nowhere", 404, 404),
        ("/associations/resources/a/b", 404, 404),
    ],
)
def test_missing_resources_have_an_error_code(rest: Rest, path: str, status: int, code: int) -> None:
    rest.register("codes", record(NUMBER))
    answer = rest.get(path)
    assert (answer.status, answer.code) == (status, code)


def test_deleting_is_soft_first_and_permanent_second(rest: Rest) -> None:
    number = rest.register("gone", record(NUMBER, name="Gone")).body["id"]
    assert rest.delete("/subjects/gone?permanent=true").code == 40405
    assert rest.delete("/subjects/gone").body == [1]
    assert rest.delete("/subjects/gone").code == 40404
    assert rest.get("/subjects/gone/versions").code == 40401
    assert rest.get("/subjects/gone/versions?deleted=true").body == [1]
    assert rest.get(f"/schemas/ids/{number}").status == 200
    assert rest.delete("/subjects/gone?permanent=true").body == [1]
    assert rest.get(f"/schemas/ids/{number}").code == 40403


def test_an_id_that_was_deleted_for_good_is_not_given_to_another_schema(rest: Rest) -> None:
    number = rest.register("reused", record(NUMBER, name="Reused")).body["id"]
    rest.delete("/subjects/reused")
    rest.delete("/subjects/reused?permanent=true")
    assert rest.register("reused", record(NUMBER, name="ReusedAgain")).body["id"] > number
    assert rest.register("reused-2", record(NUMBER, name="Reused")).body["id"] == number


def test_one_version_is_deleted_softly_and_comes_back_with_its_id(rest: Rest) -> None:
    first = rest.register("one", record(NUMBER, name="One")).body["id"]
    rest.register("one", record(NUMBER, NOTE, name="One"))
    assert rest.delete("/subjects/one/versions/1?permanent=true").code == 40407
    assert rest.delete("/subjects/one/versions/1").body == 1
    assert rest.delete("/subjects/one/versions/1").code == 40406
    assert rest.get("/subjects/one/versions").body == [2]
    assert rest.register("one", record(NUMBER, name="One")).body["id"] == first
    assert rest.get("/subjects/one/versions").body == [2, 3]


def test_a_schema_that_others_refer_to_stays(rest: Rest) -> None:
    rest.register("referred", record(NUMBER, name="Referred"))
    reference = {"name": "Referred", "subject": "referred", "version": -1}
    using = record({"name": "inner", "type": "Referred"}, name="Using")
    number = rest.register("using", using, references=[reference]).body["id"]
    assert rest.get("/subjects/referred/versions/1/referencedby").body == [number]
    assert rest.get("/subjects/using/versions/1").body["references"][0]["version"] == 1
    assert rest.delete("/subjects/referred").code == 42206
    missing = rest.register("using2", using, references=[{**reference, "version": 7}])
    assert missing.code == 42201


def test_metadata_and_rules_are_given_back(rest: Rest) -> None:
    metadata = {"properties": {"owner": "shop"}, "tags": {"**.email": ["PII"]}, "sensitive": ["owner"]}
    rules = {
        "domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]
    }
    number = rest.register("ruled", record(NUMBER, name="R"), metadata=metadata, ruleSet=rules).body["id"]
    found = rest.get(f"/schemas/ids/{number}").body
    assert (found["metadata"], found["ruleSet"]) == (metadata, rules)
    assert rest.get("/subjects/ruled/metadata?key=owner&value=shop").body["id"] == number


def test_modes_decide_about_writes(rest: Rest) -> None:
    rest.register("modes", record(NUMBER))
    assert rest.put("/mode/modes", {"mode": "READONLY"}).body == {"mode": "READONLY"}
    assert rest.register("modes", record(NUMBER, NOTE)).code == 42205
    assert rest.put("/mode/modes", {"mode": "IMPORT"}).code == 42205
    assert rest.delete("/mode/modes").body == {"mode": "READONLY"}
    assert rest.put("/mode/modes", {"mode": "SOMETIMES"}).code == 42204
    assert rest.put("/mode/imported", {"mode": "IMPORT"}).status == 200
    assert rest.register("imported", record(NUMBER, name="I"), id=4711, version=3).body == {"id": 4711}
    assert rest.get("/subjects/imported/versions").body == [3]
    rest.put("/mode/imported", {"mode": "READWRITE"})
    assert rest.register("imported", record(NUMBER, NOTE, name="I")).body == {"id": 4712}


def test_a_context_has_ids_of_its_own(rest: Rest) -> None:
    assert rest.register(":.acme:orders", record(NUMBER, name="Acme")).body == {"id": 1}
    assert rest.get("/contexts").body == [".", ".acme"]
    assert rest.get("/contexts/.acme/subjects/orders/versions").body == [1]
    assert ":.acme:orders" not in rest.get("/subjects").body
    assert rest.get("/subjects?subjectPrefix=:.acme:").body == [":.acme:orders"]
    assert rest.get("/schemas/ids/1?subject=:.acme:").body["schema"].count("Acme") == 1


def test_compatibility_is_checked_at_the_subjects_level(rest: Rest) -> None:
    rest.register("levels", record(NUMBER))
    body = {"schema": json.dumps(record(NUMBER, {"name": "must", "type": "int"}))}
    path = "/compatibility/subjects/levels/versions/latest?verbose=true"
    assert rest.post(path, body).body["is_compatible"] is False
    assert rest.put("/config/levels", {"compatibility": "FORWARD"}).body == {"compatibility": "FORWARD"}
    assert rest.post(path, body).body == {"is_compatible": True, "messages": []}
    assert rest.get("/config/levels").body == {"compatibilityLevel": "FORWARD"}
    deleted = rest.delete("/config/levels").body  # existing records, and Karapace's key: the current state
    assert deleted == {"compatibilityLevel": "FORWARD", "compatibility": "BACKWARD"}
    assert rest.get("/config/levels?defaultToGlobal=true").body == {"compatibilityLevel": "BACKWARD"}
    assert rest.put("/config", {"compatibility": "SIDEWAYS"}).code == 42203


def test_names_accepted_by_other_registries_are_read_and_kept(rest: Rest) -> None:
    subject, faulty = "taken-over", record({"name": "a-field", "type": "string"}, name="A-Record")
    refused = rest.register(subject, faulty)
    assert (refused.code, "A-Record is not a valid Avro name" in refused.body["message"]) == (42201, True)
    rest.put(f"/mode/{subject}", {"mode": "IMPORT"})
    assert rest.register(subject, faulty, id=7000, version=1).body == {"id": 7000}
    rest.put(f"/mode/{subject}", {"mode": "READWRITE"})
    assert rest.register(subject, faulty).body == {"id": 7000}
    assert rest.post(f"/subjects/{subject}", {"schema": json.dumps(faulty)}).body["id"] == 7000
    check = f"/compatibility/subjects/{subject}/versions/latest"
    mended = record(NOTE, name="A_Record")
    assert rest.post(check, {"schema": json.dumps(mended)}).body["is_compatible"] is False
    other = record(*faulty["fields"], NOTE | {"name": "one-more"}, name=faulty["name"])
    assert rest.post(check, {"schema": json.dumps(other)}).body["is_compatible"] is True
    assert rest.register(subject, other).status == 200
    assert rest.register("another", other).code == 42201


def test_a_default_of_another_type_is_taken_as_confluents_registry_takes_it(rest: Rest) -> None:
    first = record({"name": "number", "type": ["null", "long"], "default": "null"})
    assert rest.register("odd-default", first).status == 200
    second = record(*first["fields"], NOTE)
    assert rest.register("odd-default", second).status == 200


def test_subjects_are_listed_in_the_order_of_registration(rest: Rest) -> None:
    for name in ("order-c", "order-a", "order-b"):
        rest.register(name, '"string"')
    rest.register("order-c", '"bytes"')
    assert rest.get("/subjects?subjectPrefix=order-").body == ["order-c", "order-a", "order-b"]


def test_references_of_a_deleted_schema_stay_until_it_is_deleted_permanently(rest: Rest) -> None:
    rest.register("kept", record(NOTE, name="Kept"))
    user = record({"name": "kept", "type": "Kept"}, name="User")
    reference = [{"name": "Kept", "subject": "kept", "version": 1}]
    assert rest.register("user", user, references=reference).status == 200
    assert rest.delete("/subjects/kept/versions/1").code == 42206
    assert rest.delete("/subjects/user/versions/1").status == 200
    assert rest.get("/subjects/kept/versions/1/referencedby").body == []
    assert rest.delete("/subjects/kept").code == 42206
    assert rest.delete("/subjects/user/versions/1?permanent=true").status == 200
    assert rest.delete("/subjects/kept").body == [1]


def test_schema_is_returned_without_references_on_request(rest: Rest) -> None:
    """`format=resolved`: each type where it is named first."""
    money = {"type": "enum", "name": "Currency", "namespace": "shop", "symbols": ["EUR"]}
    rest.register("currency", money)
    price = {
        "type": "record",
        "name": "Price",
        "namespace": "shop",
        "fields": [{"name": "in", "type": "Currency"}],
    }
    one = [{"name": "shop.Currency", "subject": "currency", "version": 1}]
    assert rest.register("price", price, references=one).status == 200
    order = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "price", "type": "Price"},
            {"name": "more", "type": {"type": "array", "items": ["null", "Price", "Currency"]}},
        ],
    }
    two = [{"name": "shop.Price", "subject": "price", "version": 1}]
    number = rest.register("order", order, references=two).body["id"]
    text = rest.get(f"/schemas/ids/{number}?format=resolved").body["schema"]
    assert json.loads(text)["fields"][0]["type"]["name"] == "Price"
    resolved = fastavro.parse_schema(json.loads(text))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, resolved, {"price": {"in": "EUR"}, "more": [None, "EUR", {"in": "EUR"}]})
    assert rest.get(f"/schemas/ids/{number}").body["schema"] != text
