"""Format of a segment object.

    bytes of the .log, whole batches, from position 0
    sections: offset_index, time_index, aborted, producers (Kafka's file formats)
    footer: JSON with its checksum
    trailer of 8 bytes: length of the footer, and MAGIC

`segment_build` builds it. The indexes are relative to the base offset and to position 0. A chunk is about 4 MiB of
whole batches with a checksum: the unit of download.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from struct import Struct

import msgspec
from fastcrc.crc32 import iscsi as crc32c

from barnabas.common.files import Bytes
from barnabas.log.tiering import OpenTransaction
from barnabas.tiering.objects.layout import DamagedError, seal, unseal
from barnabas.tiering.objects.manifest import Epochs, SegmentEntry, epochs_within
from barnabas.tiering.stores.store import ObjectReader, ObjectStore, StoreError

MAGIC = b"BNS1"
CHUNK_BYTES = 4 << 20

OFFSET_INDEX = "offset_index"
TIME_INDEX = "time_index"
ABORTED = "aborted"
PRODUCERS = "producers"

_TRAILER = Struct(">I4s")
TRAILER_SIZE = _TRAILER.size


class BadObjectError(StoreError):
    """Truncated or damaged object, or not a Barnabas segment. The message includes its key."""


class Section(msgspec.Struct, frozen=True, array_like=True):
    position: int
    length: int
    crc: int


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    position: int
    base_offset: int  # of its first batch
    crc: int


class Footer(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    topic_id: str
    partition: int
    base: int
    end: int
    leader_epoch: int  # of the writer
    size: int  # bytes of records
    largest_timestamp: int
    sections: dict[str, Section]
    epochs: Epochs
    open_transactions: tuple[OpenTransaction, ...] = ()
    chunks: tuple[Chunk, ...]

    def encode(self) -> bytes:
        """Encode the footer and the trailer."""
        data = seal(self)
        return data + _TRAILER.pack(len(data), MAGIC)

    @classmethod
    def decode(cls, data: bytes, key: str = "a segment") -> Footer:
        """Decode the footer and the trailer, which are the end of the object."""
        length = footer_length(data, key)
        if length + TRAILER_SIZE != len(data):
            raise BadObjectError(
                f"{key}: a footer of {length} bytes was announced, not {len(data) - TRAILER_SIZE}"
            )
        try:
            footer = unseal(data[:length], cls)
            footer.check()
        except (DamagedError, ValueError) as error:
            raise BadObjectError(f"{key}: the footer is damaged: {error}") from error
        return footer

    def check(self) -> None:
        """Raise ValueError if the footer is inconsistent."""
        if not self.base < self.end or not self.chunks or self.chunks[0].position:
            raise ValueError(f"[{self.base}, {self.end}) in {len(self.chunks)} chunks")
        ends = [chunk.position for chunk in self.chunks] + [self.size]
        if any(start >= end for start, end in pairwise(ends)):
            raise ValueError("chunks are out of order")
        if missing := {OFFSET_INDEX, TIME_INDEX, ABORTED, PRODUCERS} - self.sections.keys():
            raise ValueError(f"missing sections: {', '.join(sorted(missing))}")

    def chunk_at(self, offset: int) -> int:
        """Return the number of the chunk that contains the offset."""
        return max(bisect_right(self.chunks, offset, key=_base_offset) - 1, 0)

    def chunk_range(self, number: int) -> tuple[int, int]:
        """Return the byte range [start, end) of a chunk in the object."""
        last = number + 1 == len(self.chunks)
        return self.chunks[number].position, self.size if last else self.chunks[number + 1].position


def _base_offset(chunk: Chunk) -> int:
    return chunk.base_offset


# -- reading ------------------------------------------------------------------------------------------


def footer_length(end_of_object: bytes, key: str) -> int:
    """Return the footer length from the trailer; BadObjectError if the trailer is invalid."""
    if len(end_of_object) < TRAILER_SIZE:
        raise BadObjectError(f"{key}: {len(end_of_object)} bytes are too few for a segment")
    length, magic = _TRAILER.unpack(end_of_object[-TRAILER_SIZE:])
    if magic != MAGIC:
        raise BadObjectError(
            f"{key} does not end like a segment of Barnabas: truncated, or written by another program"
        )
    return int(length)


async def read_footer(store: ObjectReader, key: str, entry: SegmentEntry) -> Footer:
    """Read the footer of a listed segment and verify it against its entry."""
    return footer_of(bytes(await store.get_range(key, entry.footer, entry.total)), key, entry)


def footer_of(data: bytes, key: str, entry: SegmentEntry) -> Footer:
    """Decode footer and trailer; BadObjectError if they do not match the entry."""
    if crc32c(data[:-TRAILER_SIZE]) != entry.crc:
        raise BadObjectError(f"{key}: the footer does not match the manifest")
    footer = Footer.decode(data, key)
    if (footer.base, footer.size) != (entry.base, entry.size) or footer.end < entry.end:
        raise BadObjectError(f"{key} holds [{footer.base}, {footer.end}), not [{entry.base}, {entry.end})")
    return footer


async def find_footer(store: ObjectStore, key: str, total: int) -> tuple[Footer, SegmentEntry]:
    """Read the footer of an unlisted object of known size; return it with its manifest entry."""
    if total <= TRAILER_SIZE:
        raise BadObjectError(f"{key}: {total} bytes are too few for a segment")
    length = footer_length(bytes(await store.get_range(key, total - TRAILER_SIZE, total)), key)
    position = total - TRAILER_SIZE - length
    if position <= 0:
        raise BadObjectError(f"{key}: a footer of {length} bytes does not fit in {total}")
    data = bytes(await store.get_range(key, position, total))
    footer = Footer.decode(data, key)
    return footer, entry_of(footer, key.rpartition("/")[2], position, data)


def entry_of(footer: Footer, name: str, position: int, data: bytes) -> SegmentEntry:
    """Create a manifest entry. `data`: the footer and the trailer, which begin at `position`."""
    return SegmentEntry(
        base=footer.base,
        end=footer.end,
        key=name,
        size=footer.size,
        footer=position,
        total=position + len(data),
        largest_timestamp=footer.largest_timestamp,
        crc=crc32c(data[:-TRAILER_SIZE]),
        epochs=epochs_within(footer.epochs, footer.base, footer.end),
    )


async def read_section(store: ObjectReader, key: str, footer: Footer, name: str) -> bytes:
    section = footer.sections[name]
    if not section.length:
        return b""
    data = bytes(await store.get_range(key, section.position, section.position + section.length))
    check_section(key, footer, name, data)
    return data


def check_section(key: str, footer: Footer, name: str, data: Bytes) -> None:
    """Raise BadObjectError if the checksum of the section is wrong."""
    section = footer.sections[name]
    if len(data) != section.length or (data and crc32c(data) != section.crc):
        raise BadObjectError(f"{key}: the section {name} has a wrong checksum")


async def read_chunk(store: ObjectReader, key: str, footer: Footer, number: int) -> Bytes:
    data = await store.get_range(key, *footer.chunk_range(number))
    check_chunk(key, footer, number, data)
    return data


def check_chunk(key: str, footer: Footer, number: int, data: Bytes) -> None:
    """Raise BadObjectError if the checksum of the chunk is wrong. Takes milliseconds: run it in a thread."""
    start, end = footer.chunk_range(number)
    if len(data) != end - start or crc32c(data) != footer.chunks[number].crc:
        raise BadObjectError(f"{key}: the chunk at position {start} has a wrong checksum")
