"""How a file is known again: by its beginning, and by what stands before the place that was reached.

Device and inode alone will not do: an inode is given to the next file as soon as it is free, and a copy of a file has
another one. The beginning is a digest of at most 1 KiB, kept with its length, which grows with a short file. The tail
is a digest of at most 4 KiB before the offset: what was truncated and written again has another one.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Protocol

import msgspec

HEAD_BYTES = 1024
TAIL_BYTES = 4096


class Contents(Protocol):
    """The bytes of a file, decompressed if they are compressed."""

    def read(self, offset: int, length: int) -> bytes:
        """Fewer bytes than asked for only at the end."""
        ...


class FilePosition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a file was read, and how to know it again. This is what the positions topic stores, as JSON."""

    path: str
    device: int
    inode: int
    offset: int = 0
    head_length: int = 0
    head: str = ""
    tail: str = ""
    compressed: bool = False
    gone_ms: int = 0
    """When it was noticed that no file of this identity is there any more; 0: it is there."""

    @property
    def inode_key(self) -> tuple[int, int]:
        return self.device, self.inode


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def begins_alike(contents: Contents, known: FilePosition) -> bool:
    """Whether the contents begin as the known file does. Of an empty file nothing is known."""
    if known.head_length == 0:
        return False
    head = contents.read(0, known.head_length)
    return len(head) == known.head_length and digest(head) == known.head


def starts_alike(data: bytes, known: FilePosition) -> bool:
    """Whether the first bytes of a file, as they were read, are those of the known one."""
    return digest(data[: known.head_length]) == known.head


def continues(contents: Contents, known: FilePosition) -> bool:
    """Whether the contents before the offset are those that were read."""
    length = min(known.offset, TAIL_BYTES)
    tail = contents.read(known.offset - length, length)
    return len(tail) == length and digest(tail) == known.tail


def is_same(contents: Contents, known: FilePosition) -> bool:
    return begins_alike(contents, known) and continues(contents, known)


def beginning_of(contents: Contents, path: str) -> FilePosition:
    """The position in a file of which nothing was read. Its beginning counts already: a copy may be on its way."""
    head = contents.read(0, HEAD_BYTES)
    return FilePosition(
        path=path, device=0, inode=0, head_length=len(head), head=digest(head), tail=digest(b"")
    )


def moved_to(known: FilePosition, contents: Contents, offset: int, data: bytes, begin: int) -> FilePosition:
    """The position at a later offset of the same file.

    `data` are its bytes from `begin` on, as they were read: by now there may be others, because it was truncated.
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
