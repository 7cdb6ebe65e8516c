"""Model of a disk for `testing/files.py`: the content visible to a process, and the durable content."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

PAGE = 4096


@dataclass(slots=True, eq=False)
class FileNode:
    contents: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    modified_ms: int = 0


@dataclass(slots=True, eq=False)
class FolderNode:
    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


Node: TypeAlias = FileNode | FolderNode


@dataclass(slots=True, eq=False)
class NameChange:
    """One journal entry: `node` is removed from `source`, added at `target`, or both (a rename)."""

    node: Node
    source: tuple[FolderNode, str] | None
    target: tuple[FolderNode, str] | None

    def touches(self, folder: FolderNode) -> bool:
        source, target = self.source, self.target
        return (source is not None and source[0] is folder) or (target is not None and target[0] is folder)

    def make_durable(self) -> None:
        if self.source is not None:
            folder, name = self.source
            folder.durable.pop(name, None)
        if self.target is not None:
            folder, name = self.target
            folder.durable[name] = self.node


def files_below(folder: FolderNode, prefix: str) -> Iterator[tuple[str, bytes]]:
    for name, node in sorted(folder.entries.items()):
        if isinstance(node, FileNode):
            yield f"{prefix}/{name}", bytes(node.contents)
        else:
            yield from files_below(node, f"{prefix}/{name}")


def after_crash(folder: FolderNode, surviving: Callable[[FileNode], bytes]) -> FolderNode:
    after = FolderNode()
    for name, node in folder.durable.items():
        if isinstance(node, FileNode):
            contents = surviving(node)
            after.entries[name] = FileNode(bytearray(contents), contents, node.modified_ms)
        else:
            after.entries[name] = after_crash(node, surviving)
    after.durable = dict(after.entries)
    return after


def surviving_bytes(node: FileNode, lose_unsynced: bool, torn: random.Random | None) -> bytes:
    """Content of a file after a crash: the synced bytes, and with `torn` a random part of the unsynced ones."""
    written = bytes(node.contents)
    if not lose_unsynced or written == node.durable:
        return written
    if torn is None:
        return node.durable
    kept = torn.choice((node.durable, written, None, None))
    if kept is not None:
        return kept
    start = _common_length(written, node.durable)
    end = torn.randint(start, len(written))
    # A file system that extends a file before it writes the data leaves zeros where the data are missing.
    zeros = torn.choice((0, 0, len(written) - end, min(PAGE, len(written) - end)))
    return written[:end] + bytes(zeros)


def _common_length(one: bytes, other: bytes) -> int:
    shorter = min(len(one), len(other))
    return next((index for index in range(shorter) if one[index] != other[index]), shorter)
