"""Zigzag variable-length integers, for lengths and deltas in records.

Seven bits per byte, lowest first; the sign is in the lowest bit, so that small negative numbers stay short (-1, the
length of a null, is one byte).
"""

from __future__ import annotations

from functools import cache

_ONE_BYTE = tuple(bytes([value]) for value in range(128))
_MAX = 10  # bytes of a 64-bit number
SMALL = 8192


def varint(value: int) -> bytes:
    folded = (value << 1) ^ (value >> 63)
    if folded < 128:
        return _ONE_BYTE[folded]
    if folded < 16384:  # nearly all other numbers
        return bytes((folded & 0x7F | 0x80, folded >> 7))
    encoded = bytearray()
    while folded >= 128:
        encoded.append(folded & 0x7F | 0x80)
        folded >>= 7
    encoded.append(folded)
    return bytes(encoded)


@cache
def small_varints() -> tuple[bytes, ...]:
    """Encoded numbers by number: of lengths and deltas in usual batches."""
    return tuple(varint(number) for number in range(SMALL))


def read_varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """(value, position after it). IndexError if the data are truncated, ValueError if the number is too long."""
    byte = data[position]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), position + 1
    second = data[position + 1]
    folded = byte & 0x7F | (second & 0x7F) << 7
    if second < 128:  # nearly all other numbers
        return (folded >> 1) ^ -(folded & 1), position + 2
    for index in range(2, _MAX):
        byte = data[position + index]
        folded |= (byte & 0x7F) << 7 * index
        if byte < 128:
            return (folded >> 1) ^ -(folded & 1), position + index + 1
    raise ValueError(f"a variable-length integer is longer than {_MAX} bytes")
