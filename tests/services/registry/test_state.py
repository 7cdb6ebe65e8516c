"""Replay of `_schemas` records, without a topic."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from barnabas.services.registry.records import RegistryKey, schema_entry
from barnabas.services.registry.state import RegistryState


def replay(state: RegistryState, key: dict[str, Any], value: dict[str, Any] | None) -> None:
    state.replay(json.dumps(key).encode(), None if value is None else json.dumps(value).encode())


def schema(state: RegistryState, subject: str, version: int, number: int, text: str, **more: Any) -> None:
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    replay(state, key, {"subject": subject, "version": version, "id": number, "schema": text, **more})


def test_an_id_that_two_schemas_have_stays_with_the_first(caplog: pytest.LogCaptureFixture) -> None:
    state = RegistryState()
    with caplog.at_level(logging.ERROR):
        schema(state, "a", 1, 7, '"int"')
        schema(state, "b", 1, 7, '"long"')
    assert state.duplicates == 1
    assert "belongs to two schemas" in caplog.text
    found = state.schema(".", 7)
    assert found is not None
    assert found.text == '"int"'
    assert state.next_id(".") == 8


def test_a_subject_that_is_deleted_up_to_a_version_keeps_the_later_ones() -> None:
    state = RegistryState()
    for version in (1, 2, 3):
        schema(state, "s", version, version, f'"{version}"')
    key = {"keytype": "DELETE_SUBJECT", "subject": "s", "magic": 0}
    replay(state, key, {"subject": "s", "version": 2})
    assert [one.version for one in state.live("s")] == [3]


SCHEMA_KEY = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
MODE_KEY = b'{"keytype":"MODE","subject":"s","magic":0}'
MALFORMED = [
    *((key, b"{}") for key in (None, b"", b"\xff", b"[]", b'"text"', b'{"keytype":7}', b'{"subject":"s"}')),
    *((SCHEMA_KEY, value) for value in (b"no json", b"[]", b"\xff", b"0", b"[" * 100_000)),
    *((MODE_KEY, value) for value in (b"no json", b'{"mode":"SOMETIMES"}', b'{"mode":[]}', b"{}")),
    (b'{"keytype":"CONFIG","subject":"s","magic":0}', b"no json"),
]


@pytest.mark.parametrize(("key", "value"), MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_record_is_an_error_and_deletes_nothing(key: bytes | None, value: bytes) -> None:
    state = RegistryState()
    schema(state, "s", 1, 1, '"int"')
    replay(state, {"keytype": "MODE", "subject": "s"}, {"mode": "READONLY"})
    replay(state, {"keytype": "CONFIG", "subject": "s"}, {"compatibilityLevel": "FULL"})
    with pytest.raises((ValueError, TypeError, RecursionError)):
        state.replay(key, value)
    assert [one.version for one in state.live("s")] == [1]
    assert state.mode("s") == "READONLY"
    assert state.config("s") == {"compatibilityLevel": "FULL"}


def test_records_of_later_versions_are_passed_over() -> None:
    state = RegistryState()
    for value in (None, b"", b"no json", b"[]", b"{}"):
        state.replay(b'{"keytype":"LATER","magic":1}', value)
    schema(state, "s", 1, "one", "x")  # type: ignore[arg-type]
    schema(state, "s", 1, 1, '"int"', schemaType="XML")
    assert not list(state.subjects())


def test_records_are_written_byte_for_byte_as_others_write_them() -> None:
    state = RegistryState()
    schema(state, "s", 1, 1, '"int"')
    value = schema_entry(state.live("s")[0]).value or b""
    assert value.startswith(b'{"subject":"s","version":1,"id":1,"guid":"')
    assert value.endswith(b'"schema":"\\"int\\"","deleted":false}')
    assert RegistryKey("CONFIG", None).encode() == b'{"keytype":"CONFIG","subject":null,"magic":0}'
    assert RegistryKey("NOOP").encode() == b'{"keytype":"NOOP","magic":0}'
    assert (
        RegistryKey("SCHEMA", "s", 1).encode() == b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    )
    assert (
        RegistryKey("DELETE_SUBJECT", "s").encode() == b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'
    )


def test_a_context_has_its_own_configuration_and_a_subject_wins() -> None:
    state = RegistryState()
    replay(state, {"keytype": "CONFIG", "subject": None, "magic": 0}, {"compatibilityLevel": "FULL"})
    replay(state, {"keytype": "CONFIG", "subject": ":.acme:", "magic": 0}, {"compatibilityLevel": "NONE"})
    replay(state, {"keytype": "CONFIG", "subject": ":.acme:s", "magic": 0}, {"compatibilityLevel": "FORWARD"})
    assert state.level("s") == "FULL"
    assert state.level(":.acme:other") == "NONE"
    assert state.level(":.acme:s") == "FORWARD"
