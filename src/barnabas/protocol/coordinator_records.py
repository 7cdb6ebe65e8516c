"""Records of the internal topics: a key with its type, a value with its version.

A key is an int16, the record type, followed by the body; a value is an int16, the version, followed by the
body. Each internal topic has its own numbering of types.
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
    streams_group,
    transaction,
)
from barnabas.protocol.messages.records import (
    streams_group as streams_description,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ProtocolError

REBALANCE_REASON_HEADER = "barnabas.rebalance.reason"
"""Header of a record of a generation or epoch. Kafka ignores record headers here; `barnabas groups history`
reads it.
"""

_TYPE_OR_VERSION = struct.Struct(">h")


class UnknownRecordTypeError(ValueError):
    """A record type unknown to this version of Barnabas; a newer one may have written it."""


class RecordType(NamedTuple):
    """Key and value classes of one record type."""

    key: type[Message]
    value: type[Message]


def _types_of(*modules: ModuleType) -> dict[int, RecordType]:
    """Pair each `...Key` of some modules with its `...Value`, by record type."""
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
    """Encode a record's key, preceded by its type; keys have one version, 0."""
    return _encode_behind(key.api_key, key, 0)


def encode_versioned(message: Message, version: int) -> bytes:
    """Encode a value (or the metadata that group members embed in requests), preceded by its version."""
    return _encode_behind(version, message, version)


def _encode_behind(number: int, message: Message, version: int) -> bytes:
    # These messages have no record batches, so everything stays in one buffer.
    return bytes(encoder(type(message), version)(message, bytearray(_TYPE_OR_VERSION.pack(number)), []))


def decode_key(types: dict[int, RecordType], buffer: Any) -> Any:
    """Decode a record's key; its class identifies the type, and `types` has the class of the value."""
    number = _leading_number(buffer)
    if number not in types:
        raise UnknownRecordTypeError(f"unknown record type {number}")
    return decode(types[number].key, 0, buffer, 2)[0]


def decode_value(types: dict[int, RecordType], key: Message, buffer: Any) -> Any:
    """Decode the value that belongs to a key."""
    return decode_versioned(types[key.api_key].value, buffer)


def decode_versioned(cls: type[Message], buffer: Any) -> Any:
    """Decode a message that is preceded by its version."""
    return decode(cls, _leading_number(buffer), buffer, 2)[0]


def _leading_number(buffer: Any) -> int:
    try:
        number: int = _TYPE_OR_VERSION.unpack_from(buffer)[0]
    except struct.error as error:
        raise ProtocolError(f"record without type or version: {error}") from error
    return number
