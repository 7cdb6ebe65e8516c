"""Identify a file after rotation by digests of its head and of the bytes before the read offset.

Device and inode are not sufficient: file systems reuse inodes, and a copy has a different one. The head digest covers
up to 1 KiB and is stored with its length, which increases while a short file grows. The tail digest covers up to 4 KiB
before the offset and detects a file that was truncated and rewritten.
"""

from __future__ import annotations

from enum import Enum, auto
from hashlib import blake2b
from typing import Protocol

import msgspec

from barnabas.services.ingest.files.contents import OpenFile, UnfinishedError

HEAD_BYTES = 1024
TAIL_BYTES = 4096


class Contents(Protocol):
    """Bytes of a file, decompressed if necessary."""

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes, or fewer at the end of the file."""
        ...


class FilePosition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Read offset and identity of a file; stored as JSON in the positions topic."""

    path: str
    device: int
    inode: int
    offset: int = 0
    head_length: int = 0
    head: str = ""
    tail: str = ""
    compressed: bool = False
    gone_ms: int = 0
    """Unix time in milliseconds at which the file was found missing; 0: it exists."""

    @property
    def inode_key(self) -> tuple[int, int]:
        return self.device, self.inode


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def has_same_head(contents: Contents, known: FilePosition) -> bool:
    """True if the contents match the head digest of the known file; False if that file was empty."""
    if known.head_length == 0:
        return False
    head = contents.read(0, known.head_length)
    return len(head) == known.head_length and digest(head) == known.head


def is_same_head(data: bytes, known: FilePosition) -> bool:
    """True if `data`, the first bytes read from a file, matches the head digest of the known file."""
    return digest(data[: known.head_length]) == known.head


def continues(contents: Contents, known: FilePosition) -> bool:
    """True if the bytes before the offset match the tail digest."""
    length = min(known.offset, TAIL_BYTES)
    tail = contents.read(known.offset - length, length)
    return len(tail) == length and digest(tail) == known.tail


def is_same(contents: Contents, known: FilePosition) -> bool:
    return has_same_head(contents, known) and continues(contents, known)


def beginning_of(contents: Contents, path: str) -> FilePosition:
    """Return the initial position of a file, with its head digest: the file may be rotated before the first read."""
    head = contents.read(0, HEAD_BYTES)
    return FilePosition(
        path=path, device=0, inode=0, head_length=len(head), head=digest(head), tail=digest(b"")
    )


def moved_to(known: FilePosition, contents: Contents, offset: int, data: bytes, begin: int) -> FilePosition:
    """Return the position at a later offset of the same file.

    `data` is the bytes read from offset `begin`. The digests use it because the file may have been truncated since.
    """

    def read(first: int, length: int) -> bytes:
        before = contents.read(first, min(length, begin - first)) if first < begin else b""
        return before + data[max(0, first - begin) : max(0, first + length - begin)]

    head_length, head = known.head_length, known.head
    if head_length < HEAD_BYTES and offset > head_length:
        beginning = read(0, min(HEAD_BYTES, offset))
        head_length, head = len(beginning), digest(beginning)
    length = min(offset, TAIL_BYTES)
    tail = digest(read(offset - length, length))
    return msgspec.structs.replace(known, offset=offset, head_length=head_length, head=head, tail=tail)


# -- Rotation: is a new file the rotated version of a known one? No I/O --------------------------------
# | known file | new file has the same head and | verdict |
# |---|---|---|
# | missing or truncated | matches the tail digest at the known offset | SAME: renamed, copied or compressed |
# | | does not match | ANOTHER |
# | exists, unchanged | is larger or differs | ANOTHER |
# | | is equal to a prefix of it | HELD: possibly a copy in progress (copytruncate) |
#
# A copy whose original is never truncated stays held: its lines are already in the topic.


class RotationCheck(Enum):
    SAME = auto()
    HELD = auto()
    ANOTHER = auto()


def judge(newcomer: OpenFile, known: FilePosition, original: OpenFile | None) -> RotationCheck:
    """Compare a new file with a known one. `original` is the known file; None if it is missing or truncated."""
    try:
        if original is not None:
            return RotationCheck.HELD if _is_part_of(newcomer, known, original) else RotationCheck.ANOTHER
        alike = has_same_head(newcomer, known) and continues(newcomer, known)
        return RotationCheck.SAME if alike else RotationCheck.ANOTHER
    except UnfinishedError:
        return RotationCheck.HELD


def _is_part_of(newcomer: OpenFile, known: FilePosition, original: OpenFile) -> bool:
    if newcomer.compressed or original.compressed:
        return has_same_head(newcomer, known) and continues(newcomer, known)
    size = newcomer.size
    if size > original.size:
        return False
    length = min(size, TAIL_BYTES)
    return all(
        newcomer.read(offset, length) == original.read(offset, length) for offset in (0, size - length)
    )
