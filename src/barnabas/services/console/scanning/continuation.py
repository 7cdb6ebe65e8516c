"""Continuation token of a search: the next offset of each partition, URL-safe."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import msgspec

from barnabas.services.console.scanning.model import SearchError

_BAD = "the place to continue at is damaged: begin the search again"


def encode_positions(positions: Mapping[int, int]) -> str:
    """Encode positions; empty if nothing is left to read."""
    if not positions:
        return ""
    packed = msgspec.msgpack.encode([number for pair in sorted(positions.items()) for number in pair])
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def decode_positions(word: str) -> dict[int, int]:
    try:
        packed = base64.urlsafe_b64decode(word + "=" * (-len(word) % 4))
        numbers = msgspec.msgpack.decode(packed, type=list[int])
    except (binascii.Error, msgspec.MsgspecError, ValueError) as error:
        raise SearchError(_BAD, "continue_at") from error
    if len(numbers) % 2 or any(number < 0 for number in numbers):
        raise SearchError(_BAD, "continue_at")
    return dict(zip(numbers[::2], numbers[1::2], strict=True))
