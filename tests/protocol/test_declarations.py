"""Every declaration equals Kafka's definition of the message."""

from typing import Any

import pytest

from barnabas.protocol.api import APIS, OWN_API, REQUESTS, RESPONSES, ApiKey
from barnabas.protocol.messages.tiers import OWN_TAG
from barnabas.protocol.schema import UNBOUNDED, Field, Message, Struct, Versions
from barnabas.protocol.wire import ZERO_UUID
from tests.support.kafka.catalogue import (
    ALL_MESSAGES,
    JARS,
    KAFKA_MESSAGES,
    camel_case,
    is_own,
    kafka_descriptions,
    snake_case,
)
from tests.support.kafka.jars import requires_java

WIRE_NAMES = {"bool": "boolean", "bytes": "byte_string"}
PLAIN_DEFAULTS = {"boolean": False, "string": "", "byte_string": b"", "uuid": ZERO_UUID, "float64": 0.0}

# Not for a broker without KRaft; 4 to 7 are no longer in Kafka itself.
UNDECLARED = {4, 5, 6, 7, 52, 53, 54, 59, 62, 63, 70, 82, 94}


@requires_java
@pytest.mark.parametrize("cls", KAFKA_MESSAGES, ids=lambda cls: cls.NAME)
def test_a_declaration_agrees_with_kafkas_description_of_the_message(cls: type[Message]) -> None:
    description = kafka_descriptions(JARS[cls])[cls.NAME]
    valid = Versions.parse(description["validVersions"])
    assert (cls.min_version, cls.max_version) == valid
    assert cls.api_key == description.get("apiKey", -1)
    flexible = Versions.parse(description["flexibleVersions"])
    for version in range(valid.first, valid.last + 1):
        assert cls.is_flexible(version) == flexible.includes(version)
    common = {struct["name"]: struct["fields"] for struct in description.get("commonStructs", ())}
    check_fields(cls, description["fields"], valid, common)


def check_fields(cls: type[Struct], described: list[dict[str, Any]], valid: Versions, common: Any) -> None:
    fields = [field for field in cls.FIELDS if not is_own(field)]
    assert [camel_case(field.name) for field in fields] == [lower_first(f["name"]) for f in described]
    for field, expected in zip(fields, described, strict=True):
        check_field(field, expected, valid)
        check_type(field, expected, valid, common)


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=lambda cls: cls.NAME)
def test_fields_of_our_own_are_tagged_beyond_kafkas_tags_and_may_be_dropped(cls: type[Message]) -> None:
    for field in filter(is_own, cls.FIELDS):
        assert field.tag is not None
        assert field.tag >= OWN_TAG
        assert field.ignorable


def lower_first(name: str) -> str:
    return name[0].lower() + name[1:]


def check_field(field: Field, expected: dict[str, Any], valid: Versions) -> None:
    tagged = Versions.parse(expected.get("taggedVersions", "none"))
    described = expected.get("versions", expected.get("taggedVersions", "0+"))
    present = Versions.parse(described)
    nullable = Versions.parse(expected.get("nullableVersions", "none"))
    for version in range(valid.first, valid.last + 1):
        where = f"{field.name} in version {version}"
        assert field.present_in(version) == present.includes(version), where
        if present.includes(version):
            assert field.nullable_in(version) == nullable.includes(version), where
            assert field.tagged_in(version) == tagged.includes(version), where
    if tagged.includes(valid.last):
        assert field.tag == expected["tag"]
    assert field.ignorable == (str(expected.get("ignorable", False)).lower() == "true")


def check_type(field: Field, expected: dict[str, Any], valid: Versions, common: Any) -> None:
    kind = expected["type"].removeprefix("[]")
    is_array = expected["type"].startswith("[]")
    is_struct = kind[0].isupper()
    assert field.default == default_of(field, expected.get("default"), is_array, is_struct)
    assert field.wire == (
        "array" if is_array else "structure" if is_struct else WIRE_NAMES.get(kind, kind)
    ), field.name
    if is_struct:
        assert issubclass(field.element, Struct)
        assert field.element.__name__.endswith(kind)
        # Contents of a struct are irrelevant in versions without it.
        present = Versions.parse(expected.get("versions", "0+"))
        both = Versions(max(valid.first, present.first), min(valid.last, present.last))
        check_fields(field.element, expected.get("fields") or common[kind], both, common)
    elif is_array:
        assert field.element == WIRE_NAMES.get(kind, kind)


def default_of(field: Field, described: Any, is_array: bool, is_struct: bool) -> Any:
    if described == "null" or field.wire == "records":
        return None
    if is_array:
        return ()
    if is_struct:
        return field.element  # a struct of defaults
    if described is None:
        return PLAIN_DEFAULTS.get(field.wire, 0)
    if field.wire == "boolean":
        return str(described).lower() == "true"
    return described if field.wire == "string" else int(str(described), 0)


@requires_java
def test_every_api_of_kafka_is_named_and_every_api_for_clients_is_declared() -> None:
    described = {
        description["apiKey"]: description["name"].removesuffix("Request")
        for description in kafka_descriptions("kafka-clients").values()
        if description["type"] == "request"
    }
    assert {key.value: key.name for key in ApiKey if key < OWN_API} == {
        key: snake_case(name).upper() for key, name in described.items()
    }
    assert set(ApiKey) == set(APIS) | UNDECLARED
    assert all(APIS[key].name == described[key] for key in APIS if key < OWN_API)


@pytest.mark.parametrize("key", APIS, ids=lambda key: APIS[key].name)
def test_the_table_of_apis_knows_the_first_flexible_version_without_loading_the_messages(key: int) -> None:
    for cls in (REQUESTS[key], RESPONSES[key]):
        assert cls.api_key == key
        assert min(cls.first_flexible, UNBOUNDED) == max(APIS[key].first_flexible, cls.min_version)
