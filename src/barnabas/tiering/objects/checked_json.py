"""JSON with its own checksum: {"crc": CRC-32C of the body's bytes, "body": ...}. A flipped digit is noticed."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from fastcrc.crc32 import iscsi as crc32c

T = TypeVar("T")


class DamagedError(ValueError):
    """The bytes are not what was written."""


class _Envelope(msgspec.Struct):
    crc: int
    body: msgspec.Raw


def seal(value: Any) -> bytes:
    body = msgspec.json.encode(value)
    return msgspec.json.encode(_Envelope(crc32c(body), msgspec.Raw(body)))


def unseal(data: bytes, kind: type[T]) -> T:
    """DamagedError if the bytes are not what `seal` made of such a value."""
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        if crc32c(bytes(envelope.body)) != envelope.crc:
            raise DamagedError("its checksum is wrong")
        return msgspec.json.decode(envelope.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedError(str(error)) from error
