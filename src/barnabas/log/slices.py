"""A piece of a segment's file, for a fetch to send without reading it."""

from __future__ import annotations

from typing import TypeAlias

from barnabas.files import File


class FileSlice:
    """`length` bytes of a file from `position`. The file stays open while the slice is referenced."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def read(self, count: int | None = None, at: int = 0) -> bytes:
        """Up to `count` bytes (all by default), starting `at` bytes into the slice."""
        left = max(self.length - at, 0)
        return self.file.read(left if count is None else min(count, left), self.position + at)

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path}, {self.position}, {self.length})"


EMPTY = b""
Slice: TypeAlias = FileSlice | bytes
"""What a read gives: a slice, or the empty bytes."""
