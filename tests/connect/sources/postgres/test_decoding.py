"""Messages of pgoutput, byte by byte."""

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.sources.postgres.decoding import (
    EPOCH_MICROS,
    UNCHANGED,
    Begin,
    Column,
    CommitMessage,
    DecodingError,
    DeleteMessage,
    Emitted,
    Insert,
    Relation,
    Truncate,
    Update,
    decode,
)

VALUES = st.one_of(
    st.none(), st.just(UNCHANGED), st.text(st.characters(blacklist_categories=["Cs"])), st.binary(max_size=20)
)
ROWS = st.lists(VALUES, max_size=5)


def encoded(row: list[Any]) -> bytes:
    return struct.pack(">H", len(row)) + b"".join(map(value, row))


def value(one: object) -> bytes:
    if one is None:
        return b"n"
    if one is UNCHANGED:
        return b"u"
    kind, data = (b"t", one.encode()) if isinstance(one, str) else (b"b", bytes(one))  # type: ignore[call-overload]
    return kind + struct.pack(">I", len(data)) + data


@given(ROWS, ROWS)
def test_rows_have_every_kind_of_value(old: list[Any], new: list[Any]) -> None:
    place = struct.pack(">I", 7)
    assert decode(b"I" + place + b"N" + encoded(new)) == Insert(7, new)
    assert decode(b"U" + place + b"N" + encoded(new)) == Update(7, None, False, new)
    assert decode(b"U" + place + b"K" + encoded(old) + b"N" + encoded(new)) == Update(7, old, False, new)
    assert decode(b"U" + place + b"O" + encoded(old) + b"N" + encoded(new)) == Update(7, old, True, new)
    assert decode(b"D" + place + b"K" + encoded(old)) == DeleteMessage(7, old, False)
    assert decode(b"D" + place + b"O" + encoded(old)) == DeleteMessage(7, old, True)


RELATION = b"R" + struct.pack(">I", 9) + b"public\0orders\0d" + struct.pack(">H", 1)
RELATION += b"\x01id\0" + struct.pack(">Ii", 23, -1)
MESSAGES = {
    b"B" + struct.pack(">qqI", 100, 5, 3): Begin(100, 5 + EPOCH_MICROS, 3),
    b"C" + struct.pack(">Bqqq", 0, 100, 148, 5): CommitMessage(100, 148, 5 + EPOCH_MICROS),
    RELATION: Relation(9, "public", "orders", "d", (Column("id", 23, -1, True),)),
    b"T" + struct.pack(">IBII", 2, 1, 7, 9): Truncate((7, 9)),
    b"M" + struct.pack(">Bq", 1, 50) + b"hello\0" + struct.pack(">I", 2) + b"hi": Emitted("hello", b"hi"),
}


@pytest.mark.parametrize(("data", "message"), MESSAGES.items())
def test_messages_are_understood(data: bytes, message: object) -> None:
    assert decode(data) == message


@pytest.mark.parametrize("data", MESSAGES)
def test_a_message_that_ends_early_is_refused(data: bytes) -> None:
    for size in range(1, len(data)):
        with pytest.raises(DecodingError):
            decode(data[:size])


def test_statements_without_rows_are_skipped() -> None:
    assert decode(b"O" + bytes(8) + b"elsewhere\0") is None
    assert decode(b"Y" + bytes(4) + b"public\0mood\0") is None


@pytest.mark.parametrize("data", [b"S" + bytes(5), b"", b"?"])
def test_unsolicited_messages_are_rejected(data: bytes) -> None:
    with pytest.raises(DecodingError):
        decode(data)


@given(st.binary(max_size=60))
def test_random_bytes_are_a_message_or_a_typed_error(data: bytes) -> None:
    with contextlib.suppress(DecodingError):
        decode(data)
