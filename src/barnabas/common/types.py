"""Small value types shared by all layers."""

from __future__ import annotations

import base64
import os
from typing import NamedTuple, TypeAlias

Uuid: TypeAlias = bytes
"""Kafka UUID: 16 raw bytes as on the wire; displayed as 22 characters of URL-safe base64."""

ZERO_UUID: Uuid = bytes(16)
_UUID_ONE: Uuid = bytes(15) + b"\x01"


class TopicPartition(NamedTuple):
    """Partition of a topic; its text is also the name of its folder."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def new_uuid() -> Uuid:
    """Return a random id; as in Kafka, never a reserved one or one whose text starts with a dash."""
    while True:
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        candidate = bytes(raw)
        if candidate not in (ZERO_UUID, _UUID_ONE) and not uuid_to_text(candidate).startswith("-"):
            return candidate


def uuid_to_text(uuid: Uuid) -> str:
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_from_text(text: str) -> Uuid:
    """Parse an id; ValueError if the text is not 22 characters of URL-safe base64."""
    raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a Kafka id: 22 characters of URL-safe base64 are expected")
    return raw
