"""How an entry of the metadata log looks in a file: its length, the CRC32C of its text, and the text.

An entry is synced before it is acknowledged. So an entry that is cut short at the end of the
file was never acknowledged and may go; a damaged entry with good ones behind it is another matter.
"""

from __future__ import annotations

import struct

import msgspec
from fastcrc.crc32 import iscsi as crc32c

from barnabas.cluster.deltas import Delta

_HEAD = struct.Struct(">II")  # length and CRC32C of the text that follows


class Entry(msgspec.Struct, frozen=True):
    """One step of the log. The image has this offset after it."""

    offset: int
    controller_epoch: int
    deltas: list[Delta]


class DamagedMetadataError(Exception):
    """The metadata on this disk cannot be trusted; the text says where and what to do."""


_TEXT_START = b'{"offset":'
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    text = _encoder.encode(entry)
    return _HEAD.pack(len(text), crc32c(text)) + text


def decode_entries(data: bytes) -> tuple[list[Entry], int]:
    """The good entries from the start, and the position behind the last of them."""
    entries: list[Entry] = []
    position = 0
    while (text := _text_at(data, position)) is not None:
        entries.append(_decode(text, position))
        position += _HEAD.size + len(text)
    return entries, position


def has_entry_behind(data: bytes, position: int) -> bool:
    """Whether a good entry begins anywhere behind this position."""
    start = data.find(_TEXT_START, position + _HEAD.size + 1)
    while start >= 0:
        if _text_at(data, start - _HEAD.size) is not None:
            return True
        start = data.find(_TEXT_START, start + 1)
    return False


def _text_at(data: bytes, position: int) -> bytes | None:
    if position + _HEAD.size > len(data):
        return None
    length, checksum = _HEAD.unpack_from(data, position)
    text = data[position + _HEAD.size : position + _HEAD.size + length]
    # An entry is never empty; zeros at the end of a file must not pass for one.
    return text if length and len(text) == length and crc32c(text) == checksum else None


def _decode(text: bytes, position: int) -> Entry:
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as error:
        raise DamagedMetadataError(
            f"the metadata entry at byte {position} is whole but not understood ({error}); "
            "was this folder written by a newer Barnabas?"
        ) from error
