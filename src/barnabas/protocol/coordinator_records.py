"""The internal topics' records: a key that says its type, a value that says its version.

A key is an int16, the type of the record, and the body of the key; a value is an int16, the version it
is written in, and the body of the value. Each internal topic has its own numbering of types.
"""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any, NamedTuple

from barnabas.protocol.codec import decode, encoder
from barnabas.protocol.messages.records import (
    group,
    share,
    share_group,
    streams_description,
    streams_group,
    transaction,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ProtocolError

REBALANCE_REASON_HEADER = "barnabas.rebalance.reason"
"""Of the record of a generation or epoch. Kafka's readers do not look at headers; `barnabas groups history` does."""

_TYPE_OR_VERSION = struct.Struct(">h")


class UnknownRecordTypeError(ValueError):
    """A record of a type this version of Barnabas does not know; a newer one may have written it."""


class RecordType(NamedTuple):
    """The two halves of one kind of record."""

    key: type[Message]
    value: type[Message]


def _types_of(*modules: ModuleType) -> dict[int, RecordType]:
    """Pair every `...Key` declared in some modules with its `...Value`, by record type."""
    types = {}
    for module in modules:
        for name, cls in vars(module).items():
            if name.endswith("Key") and issubclass(cls, Message):
                types[cls.api_key] = RecordType(cls, getattr(module, name.removesuffix("Key") + "Value"))
    return dict(sorted(types.items()))


# The record types of `__consumer_offsets`, `__transaction_state` and `__share_group_state`.
GROUP_RECORDS = _types_of(group, share_group, streams_group, streams_description)
TRANSACTION_RECORDS = _types_of(transaction)
SHARE_RECORDS = _types_of(share)


def encode_key(key: Message) -> bytes:
    """Encode a record's key behind its type; keys have one version, 0."""
    return _encode_behind(key.api_key, key, 0)


def encode_versioned(message: Message, version: int) -> bytes:
    """Encode a value (or what group members embed in requests) behind its version."""
    return _encode_behind(version, message, version)


def _encode_behind(number: int, message: Message, version: int) -> bytes:
    # None of these messages has a field of record batches, so everything stays in the one buffer.
    return bytes(encoder(type(message), version)(message, bytearray(_TYPE_OR_VERSION.pack(number)), []))


def decode_key(types: dict[int, RecordType], buffer: Any) -> Any:
    """Decode a record's key; its class tells the type, and `types` the class of the value."""
    number = _leading_number(buffer)
    if number not in types:
        raise UnknownRecordTypeError(f"record type {number} is not known")
    return decode(types[number].key, 0, buffer, 2)[0]


def decode_value(types: dict[int, RecordType], key: Message, buffer: Any) -> Any:
    """Decode the value that belongs to a key."""
    return decode_versioned(types[key.api_key].value, buffer)


def decode_versioned(cls: type[Message], buffer: Any) -> Any:
    """Decode a message that stands behind its version."""
    return decode(cls, _leading_number(buffer), buffer, 2)[0]


def _leading_number(buffer: Any) -> int:
    try:
        number: int = _TYPE_OR_VERSION.unpack_from(buffer)[0]
    except struct.error as error:
        raise ProtocolError(f"record without type or version: {error}") from error
    return number
