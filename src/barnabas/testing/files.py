"""A file system in memory that forgets what was not synced, runs full, and fails when it is told to.

It is the twin of `barnabas.common.files.LocalFileSystem`. Two states are kept side by side: what a running process
sees, and what a disk would hold after a loss of power.

- The bytes of a file become durable by `sync`.
- Names (created, renamed, removed files and folders) become durable by `sync_folder` of the folder they are
  in. Until then they wait in a journal, in order: a crash keeps some beginning of it, as journaling file
  systems do. A rename is in the journal as a whole.

    fs = FaultyFileSystem()
    ...
    after = fs.crash(torn=random.Random(1))   # the file system as the next start finds it

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
"""Operations that are counted unless others are named; "read" and "open" are the rest."""


class PowerLost(Exception):  # noqa: N818 - not an error of the program under test
    """The machine is gone: no handler of OSErrors may catch this."""


class _Plan:
    """Which operation is going to fail, and how."""

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
        return -1  # there is no such thing in memory: callers read instead

    def append(self, data: Bytes) -> None:
        self._fs.before("append", torn_write=lambda: self._write_a_part(data), path=self.path)
        self._fs.take_space(len(data))
        self._node.contents[self.size :] = data
        self.size += len(data)
        self._node.modified_ms = self._fs.now_ms

    def _write_a_part(self, data: Bytes) -> None:
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
    """Single-threaded as far as faults are concerned; `space` is what is left on the disk, in bytes."""

    def __init__(self, space: int | None = None) -> None:
        self._root = FolderNode()
        self._known: dict[str, FolderNode] = {}  # by path, until a folder comes or goes
        self._journal: list[NameChange] = []
        self._plans: list[_Plan] = []
        self.space = space
        self.now_ms = 0
        self.operations: list[str] = []
        """The kind of every operation so far."""

    # -- faults -------------------------------------------------------------------------------------

    def fail_at(
        self, number: int, error: OSError, *kinds: str, forever: bool = False, suffix: str = ""
    ) -> None:
        """Let the `number`-th operation of these kinds fail (any change, if none is named), counted from now. With a
        suffix only appends to files whose names end like that are counted."""
        self._plans.append(_Plan(number, error, frozenset(kinds) or CHANGES, forever, suffix))

    def lose_power_at(self, number: int, *kinds: str) -> None:
        """From the `number`-th operation on, everything raises PowerLost; an append is done half."""
        self._plans.append(_Plan(number, PowerLost("power was lost"), frozenset(kinds) or CHANGES, True))

    def heal(self) -> None:
        """No more failures are planned."""
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
        """The file system after a loss of power; this one is of no use afterwards.

        Without `torn` everything that was not synced is gone. With it, chance decides: some of the journal
        and some of the unsynced bytes survive. With `lose_unsynced=False` only the process died.
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
        """There are no other accounts."""
        return True

    def make_private(self, path: str, *, tree: bool = False) -> None:
        """There is nothing to take away."""

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
        waiting: list[NameChange] = []
        for change in self._journal:
            if change.touches(folder):
                change.make_durable()
            else:
                waiting.append(change)
        self._journal = waiting

    def free_bytes(self, path: str) -> int:
        return self.capacity(path)[1]

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
        """(path, contents) of every file: for tests that compare or damage them."""
        yield from files_below(self._root, "")

    def overwrite(self, path: str, contents: bytes) -> None:
        """Put these bytes on the disk behind the program's back."""
        node = self._file(path)
        node.contents = bytearray(contents)
        node.durable = contents


# The paths of a test are few, and each is asked for again and again.
@lru_cache(maxsize=10_000)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


_split = lru_cache(maxsize=10_000)(os.path.split)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
