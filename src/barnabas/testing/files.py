"""In-memory file system with fault injection: loses unsynced data in a crash, runs full, fails on request.

It substitutes `barnabas.common.files.LocalFileSystem` and keeps two states: the content visible to a process, and the
durable content after a power failure.

- `sync` makes the content of a file durable.
- `sync_folder` makes names in a folder (created, renamed, removed files and folders) durable. Until then the changes
  are in a journal, in order: a crash keeps a prefix of it, as journaling file systems do. A rename is one entry.

    fs = FaultyFileSystem()
    ...
    after = fs.crash(torn=random.Random(1))   # the file system at the next start

    fs.fail_at(3, OSError(errno.EIO, "..."), "sync")   # the third sync from now on fails
    fs.lose_power_at(7)                                # the seventh change from now on raises PowerLost
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from functools import lru_cache

from barnabas.common.files import Bytes, File
from barnabas.testing.disk_model import (
    FileNode,
    FolderNode,
    NameChange,
    Node,
    after_crash,
    files_below,
    surviving_bytes,
)

CHANGES = frozenset(
    {"create", "append", "truncate", "sync", "rename", "remove", "make_folder", "sync_folder"}
)
"""Operations that are counted by default; the others are "read" and "open"."""


class PowerLost(Exception):  # noqa: N818 - not an error of the program under test
    """Simulated power failure. Not an OSError, so that no handler catches it."""


class _Plan:
    """A planned failure: the matching operations, the countdown and the error."""

    def __init__(
        self, countdown: int, error: Exception, kinds: frozenset[str], forever: bool, suffix: str = ""
    ) -> None:
        self._countdown = countdown
        self._error = error
        self._kinds = kinds
        self._forever = forever
        self._suffix = suffix

    def error_for(self, kind: str, path: str) -> Exception | None:
        if kind not in self._kinds or not path.endswith(self._suffix):
            return None
        self._countdown -= 1
        due = self._countdown <= 0 if self._forever else self._countdown == 0
        return self._error if due else None


class FaultyFile:
    """An open file; see `barnabas.common.files.File`."""

    def __init__(self, fs: FaultyFileSystem, path: str, node: FileNode) -> None:
        self._fs = fs
        self._node = node
        self.path = path
        self.size = len(node.contents)

    def fileno(self) -> int:
        return -1  # no descriptor: callers must read instead

    def append(self, data: Bytes) -> None:
        self._fs.before("append", torn_write=lambda: self._write_half(data), path=self.path)
        self._fs.take_space(len(data))
        self._node.contents[self.size :] = data
        self.size += len(data)
        self._node.modified_ms = self._fs.now_ms

    def _write_half(self, data: Bytes) -> None:
        self._node.contents[self.size :] = bytes(data)[: len(data) // 2]

    def read(self, count: int, position: int) -> bytes:
        self._fs.before("read")
        return bytes(self._node.contents[position : position + count])

    def truncate(self, size: int) -> None:
        self._fs.before("truncate")
        self._fs.give_space(len(self._node.contents) - size)
        del self._node.contents[size:]
        self._node.contents += bytes(size - len(self._node.contents))
        self.size = size

    def sync(self) -> None:
        self._fs.before("sync")
        self._node.durable = bytes(self._node.contents)

    def close(self) -> None:
        return


class FaultyFileSystem:
    """Fault injection is single-threaded. `space` is the free space in bytes."""

    def __init__(self, space: int | None = None) -> None:
        self._root = FolderNode()
        self._known: dict[str, FolderNode] = {}  # cache by path, cleared when a folder is created or removed
        self._journal: list[NameChange] = []
        self._plans: list[_Plan] = []
        self.space = space
        self.now_ms = 0
        self.operations: list[str] = []
        """Kinds of all operations so far."""

    # -- faults -------------------------------------------------------------------------------------

    def fail_at(
        self, number: int, error: OSError, *kinds: str, forever: bool = False, suffix: str = ""
    ) -> None:
        """Fail the `number`-th operation of these kinds (default: any change), counted from now. With a suffix only
        appends to files with that suffix are counted."""
        self._plans.append(_Plan(number, error, frozenset(kinds) or CHANGES, forever, suffix))

    def lose_power_at(self, number: int, *kinds: str) -> None:
        """Raise PowerLost from the `number`-th operation on; an append writes half of its data."""
        self._plans.append(_Plan(number, PowerLost("power was lost"), frozenset(kinds) or CHANGES, True))

    def heal(self) -> None:
        """Cancel all planned failures."""
        self._plans.clear()

    def before(self, kind: str, torn_write: Callable[[], None] | None = None, path: str = "") -> None:
        self.operations.append(kind)
        for plan in self._plans:
            error = plan.error_for(kind, path)
            if error is not None:
                if torn_write is not None and isinstance(error, PowerLost):
                    torn_write()
                raise error

    def take_space(self, count: int) -> None:
        if self.space is None:
            return
        if count > self.space:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.space -= count

    def give_space(self, count: int) -> None:
        if self.space is not None:
            self.space += count

    def crash(self, *, lose_unsynced: bool = True, torn: random.Random | None = None) -> FaultyFileSystem:
        """Return the file system after a power failure; this one must not be used afterwards.

        Without `torn` all unsynced data are lost; with it, a random part of the journal and of the unsynced bytes
        survives. `lose_unsynced=False` simulates a crash of the process only.
        """
        if not lose_unsynced:
            survivors = len(self._journal)
        else:
            survivors = torn.randint(0, len(self._journal)) if torn else 0
        for change in self._journal[:survivors]:
            change.make_durable()
        after = FaultyFileSystem(self.space)
        after.now_ms = self.now_ms
        after._root = after_crash(self._root, lambda node: surviving_bytes(node, lose_unsynced, torn))
        return after

    # -- the interface of FileSystem ------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> File:
        folder, name = self._parent_and_name(path)
        node = folder.entries.get(name)
        if node is None:
            if not create:
                raise _error(errno.ENOENT, path)
            self.before("create")
            node = FileNode(modified_ms=self.now_ms)
            self._change(node, None, (folder, name))
        else:
            self.before("open")
        if isinstance(node, FolderNode):
            raise _error(errno.EISDIR, path)
        return FaultyFile(self, path, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def size(self, path: str) -> int:
        return len(self._file(path).contents)

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def list(self, folder: str) -> list[str]:
        return sorted(self._folder(folder).entries)

    def is_folder(self, path: str) -> bool:
        return isinstance(self._find(path), FolderNode)

    def make_folders(self, path: str) -> None:
        folder = self._root
        for name in _parts(path):
            node = folder.entries.get(name)
            if node is None:
                self.before("make_folder")
                node = FolderNode()
                self._change(node, None, (folder, name))
            if isinstance(node, FileNode):
                raise _error(errno.ENOTDIR, path)
            folder = node

    def is_private(self, path: str) -> bool:
        """True: the model has no other users."""
        return True

    def make_private(self, path: str, *, tree: bool = False) -> None:
        """No-op: the model has no permissions."""

    def read_bytes(self, path: str) -> bytes:
        self.before("read")
        return bytes(self._file(path).contents)

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = self.open(path + ".tmp", create=True)
        temporary.truncate(0)
        temporary.append(data)
        if sync:
            temporary.sync()
        self.rename(path + ".tmp", path)
        if sync:
            self.sync_folder(_split(path)[0])

    def rename(self, source: str, target: str) -> None:
        source_folder, source_name = self._parent_and_name(source)
        target_folder, target_name = self._parent_and_name(target)
        node = source_folder.entries.get(source_name)
        if node is None:
            raise _error(errno.ENOENT, source)
        self.before("rename")
        self._forget_space(target_folder.entries.get(target_name))
        self._change(node, (source_folder, source_name), (target_folder, target_name))

    def remove(self, path: str) -> None:
        folder, name = self._parent_and_name(path)
        node = self._file(path)
        self.before("remove")
        self._forget_space(node)
        self._change(node, (folder, name), None)

    def remove_tree(self, path: str) -> None:
        for name in list(self._folder(path).entries):
            child = f"{path}/{name}"
            if self.is_folder(child):
                self.remove_tree(child)
            else:
                self.remove(child)
        folder, name = self._parent_and_name(path)
        self.before("remove")
        self._change(folder.entries[name], (folder, name), None)

    def sync_folder(self, path: str) -> None:
        folder = self._folder(path)
        self.before("sync_folder")
        remaining: list[NameChange] = []
        for change in self._journal:
            if change.touches(folder):
                change.make_durable()
            else:
                remaining.append(change)
        self._journal = remaining

    def capacity(self, path: str) -> tuple[int, int]:
        plenty = 1 << 40
        return plenty, plenty if self.space is None else self.space

    # -- the tree -----------------------------------------------------------------------------------

    def _change(
        self, node: Node, source: tuple[FolderNode, str] | None, target: tuple[FolderNode, str] | None
    ) -> None:
        if source is not None:
            del source[0].entries[source[1]]
        if target is not None:
            target[0].entries[target[1]] = node
        if isinstance(node, FolderNode):
            self._known.clear()
        self._journal.append(NameChange(node, source, target))

    def _forget_space(self, node: Node | None) -> None:
        if isinstance(node, FileNode):
            self.give_space(len(node.contents))

    def _find(self, path: str) -> Node | None:
        folder, last = _split(path)
        known = self._known.get(folder)
        if known is not None and last:
            return known.entries.get(last)
        node: Node | None = self._root
        for name in _parts(path):
            node = node.entries.get(name) if isinstance(node, FolderNode) else None
        return node

    def _file(self, path: str) -> FileNode:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, FolderNode):
            raise _error(errno.EISDIR, path)
        return node

    def _folder(self, path: str) -> FolderNode:
        known = self._known.get(path)
        if known is not None:
            return known
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, FileNode):
            raise _error(errno.ENOTDIR, path)
        self._known[path] = node
        return node

    def _parent_and_name(self, path: str) -> tuple[FolderNode, str]:
        folder, name = _split(path)
        return self._folder(folder), name

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield (path, contents) of every file, for tests that compare or corrupt them."""
        yield from files_below(self._root, "")

    def overwrite(self, path: str, contents: bytes) -> None:
        """Replace the visible and the durable content of a file."""
        node = self._file(path)
        node.contents = bytearray(contents)
        node.durable = contents


# A test uses few paths, each of them many times.
@lru_cache(maxsize=10_000)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


_split = lru_cache(maxsize=10_000)(os.path.split)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
