"""The serialized form of a principal."""

from __future__ import annotations

import pytest

from barnabas.protocol.wire import ProtocolError
from barnabas.security.principal import ANONYMOUS, Principal, deserialized, serialized

# Serialized by Kafka's DefaultKafkaPrincipalBuilder: version, two compact strings, a boolean, no tagged fields.
ALICE = b"\x00\x00" + b"\x05User" + b"\x06alice" + b"\x00" + b"\x00"


def test_a_principal_is_written_as_kafka_writes_it() -> None:
    assert serialized(Principal("User", "alice")) == ALICE


@pytest.mark.parametrize("principal", [ANONYMOUS, Principal("User", "bob", is_token_authenticated=True)])
def test_a_principal_is_read_as_it_was_written(principal: Principal) -> None:
    assert deserialized(serialized(principal)) == principal


def test_a_principal_is_shown_as_kafka_shows_it() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x07" + ALICE[2:], ALICE[:-3]])
def test_invalid_principal_is_rejected(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        deserialized(data)
