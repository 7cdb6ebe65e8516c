"""Pages of the schema registry: lists, differences, checks, registrations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client.schemas import RegistryAccount, Schema, SchemaClient
from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.services.console.pages.schemas.text import compare, field_changes, pretty
from barnabas.services.console.settings import ClusterSettings
from barnabas.testing import EmbeddedBroker
from tests.services.console.pages.limited import Limited
from tests.services.console.web import CLUSTER, RunningConsole, Web, running_console

PROTO = 'syntax = "proto3";\nmessage Click {\n  string page = 1;\n  int64 at = 2;\n}\n'
COUPON = {"name": "coupon", "type": ["null", "string"], "default": None}
REQUIRED = {"name": "weight", "type": "double"}
HOSTILE = "<img src=x onerror=alert(1)>"


def order(*more: dict[str, Any]) -> str:
    fields = [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}, *more]
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


@pytest.fixture(scope="module")
def console_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(registry=True) as broker:
        broker.create_topic("orders")
        with SchemaClient(broker.registry_url) as client:
            for subject, kind, text in (
                ("orders-value", "AVRO", order()),
                ("orders-value", "AVRO", order(COUPON)),
                (":.eu:orders-value", "AVRO", order()),
                ("clicks-value", "PROTOBUF", PROTO),
            ):
                client.register(subject, Schema(kind, text))
        yield broker


@pytest.fixture(scope="module")
def console(
    console_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningConsole]:
    registry = RegistryAccount.at(console_broker.registry_url)
    clusters = (ClusterSettings(CLUSTER, console_broker.bootstrap_servers, registry=registry),)
    folder = tmp_path_factory.mktemp("console")
    with running_console(console_broker.bootstrap_servers, folder, clusters=clusters) as running:
        yield running


def subjects(web: Web, **query: Any) -> list[str]:
    return [row["subject"] for row in web.api("/schemas", **query).json["subjects"]]


def test_subjects_are_found_by_name_by_field_and_by_context(web: Web) -> None:
    assert subjects(web) == ["clicks-value", "orders-value", ":.eu:orders-value"]
    assert subjects(web, q="CLICKS") == ["clicks-value"]
    assert subjects(web, q="coup") == ["orders-value"]  # a field of the newest version
    assert subjects(web, q="record") == []  # a word of the format
    assert subjects(web, context=".eu") == [":.eu:orders-value"]
    page = web.api("/schemas").json
    assert (page["level"], page["mode"], page["contexts"]) == ("BACKWARD", "READWRITE", [".", ".eu"])


def test_changes_are_lines_fields_and_a_verdict_of_the_registry(web: Web) -> None:
    one = web.api("/schemas/orders-value", tab="changes").json["chosen"]
    assert one["versions"] == [1, 2]
    assert one["changes"]["fields"] == {"added": ["coupon"], "removed": [], "changed": []}
    assert one["changes"]["reasons"] == []
    assert [line["text"].strip() for line in one["changes"]["lines"] if line["kind"] == "added"][-1] == (
        '{"name": "coupon", "type": ["null", "string"], "default": null}'
    )
    text = web.get("/schemas/orders-value", tab="changes", sides="true").text
    assert "v2 reads what v1 wrote" in text


def test_a_subject_of_a_context_and_its_uses(web: Web) -> None:
    one = web.api("/schemas/%3A.eu%3Aorders-value", tab="uses").json["chosen"]
    assert (one["version"], [use["topic"] for use in one["uses"]]) == (1, ["orders"])
    assert web.get("/schemas/%3A.eu%3Aorders-value", tab="settings").status == 200
    assert web.api("/schemas/nothing-value").status == 404
    assert web.api("/schemas/orders-value", version=9).status == 404


def test_a_schema_is_checked_before_it_is_registered(web: Web) -> None:
    form = {"subject": "orders-value", "type": "AVRO", "schema": order(COUPON, REQUIRED)}
    result = web.api("/check-schema", **form).json["result"]
    assert not result["is_compatible"]
    assert "weight" in " ".join(result["reasons"])
    refused = web.change("/schemas/orders-value/register", **form)
    assert refused.status == 400, refused.text
    assert "Nothing was registered" in refused.json["error"]

    form["schema"] = order(COUPON, {**REQUIRED, "default": 0.0})
    result = web.api("/check-schema", **form).json["result"]
    assert (result["is_compatible"], result["version"], result["level"]) == (True, 2, "BACKWARD")
    done = web.change("/schemas/orders-value/register", **form).json
    assert done == {
        "message": "The schema is version 3 of orders-value.",
        "see": "/schemas/orders-value?version=3",
    }
    assert web.api("/schemas/orders-value").json["chosen"]["version"] == 3


def test_a_check_of_an_invalid_schema_gives_the_reason(web: Web) -> None:
    page = web.api("/check-schema", subject="orders-value", schema='{"type": "strng"}').json
    assert page["result"] is None
    assert "strng" in page["error"]
    assert web.api("/check-schema", subject="new-value", schema='"string"').json["result"]["is_new"]
    assert web.api("/check-schema", subject="orders-value").json["schema"].startswith("{\n")
    assert (
        "is not a reference"
        in web.api("/check-schema", subject="a", schema="b", references="c").json["error"]
    )
    assert HOSTILE not in web.get("/check-schema", subject=HOSTILE, schema=HOSTILE).text


def test_the_level_of_a_subject_is_changed(web: Web) -> None:
    assert web.change("/schemas/clicks-value/level", level="FULL").status == 200
    assert web.api("/schemas/clicks-value").json["chosen"]["level"] == "FULL"


def test_rights_are_those_on_the_topic_of_the_subject(web: Web, user: Limited) -> None:
    assert subjects(web) == []
    assert web.api("/schemas/orders-value").status == 403
    assert web.api("/check-schema", subject="orders-value").status == 403
    user.rights = {Action(Operation.READ, ResourceType.TOPIC, "orders")}
    assert subjects(web) == ["orders-value", ":.eu:orders-value"]
    one = web.api("/schemas/orders-value", tab="uses").json["chosen"]
    assert (one["may_register"], one["may_configure"], one["uses"]) == (False, False, [])
    assert web.change("/schemas/orders-value/register", schema=order(), type="AVRO").status == 403
    assert web.change("/schemas/orders-value/level", level="NONE").status == 403


def test_a_schema_is_shown_with_one_field_a_line() -> None:
    text = pretty("AVRO", order(COUPON))
    assert json.loads(text) == json.loads(order(COUPON))
    assert '    {"name": "id", "type": "long"},' in text.splitlines()
    assert pretty("JSON", "no json") == "no json"
    assert pretty("AVRO", "[" * 100_000) == "[" * 100_000


def test_a_difference_folds_unchanged_lines() -> None:
    before = "\n".join(str(number) for number in range(100))
    lines = compare(before, before.replace("\n50\n", "\nfifty\n"))
    assert [line.text for line in lines if line.kind == "folded"] == ["47", "46"]
    assert [(line.kind, line.before, line.after) for line in lines if line.text in ("50", "fifty")] == [
        ("removed", 51, None),
        ("added", None, 51),
    ]
    assert compare("x\n" * 5000, "y") == []


def test_fields_of_records_within_records_are_compared() -> None:
    inner = {"name": "payment", "type": {"type": "record", "name": "P", "fields": [REQUIRED]}}
    changed = {"name": "payment", "type": {"type": "record", "name": "P", "fields": [COUPON]}}
    found = field_changes("AVRO", order(inner), order(changed))
    assert (found.added, found.removed, found.changed) == (["payment.coupon"], ["payment.weight"], [])
    wider = PROTO.replace("int64 at", "int32 at").replace("}\n", "  bool bot = 3;\n}\n")
    found = field_changes("PROTOBUF", PROTO, wider)
    assert (found.added, found.removed, found.changed) == (["bot"], [], ["at"])
