"""Track open and known files of a source across rotation, truncation and deletion."""

from __future__ import annotations

import glob
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from barnabas.common.clock import SystemClock
from barnabas.common.safe_logging import safe_logger
from barnabas.services.ingest.files.contents import Changed, FileId, OpenFile, UnfinishedError, open_contents
from barnabas.services.ingest.files.identity import (
    HEAD_BYTES,
    FilePosition,
    RotationCheck,
    beginning_of,
    digest,
    is_same,
    judge,
)

# -- Find files by glob pattern, and rotation candidates of a missing file -----------------------------


class Discovery:
    """Lists readable regular files. Logs each unreadable file once."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(os.path.abspath(os.path.expanduser(pattern)) for pattern in patterns)
        self._refused: set[str] = set()

    def matching(self) -> dict[FileId, str]:
        """Return matching regular files by identity; of several hard links, the first path in sorted order."""
        return self._identified(
            path for pattern in self._patterns for path in sorted(glob.iglob(pattern, recursive=True))
        )

    def relatives(self, path: str) -> dict[FileId, str]:
        """Return possible results of rotating this file: app.log.1, app.log-20261117.gz, app.1.log."""
        folder, name = os.path.split(path)
        stem = name.split(".")[0]
        return self._identified(
            os.path.join(folder, other) for other in _names(folder) if other.startswith(stem)
        )

    def _identified(self, paths: Iterable[str]) -> dict[FileId, str]:
        found: dict[FileId, str] = {}
        for path in paths:
            try:
                status = os.stat(path)
            except OSError:
                continue  # deleted since it was listed
            if stat.S_ISREG(status.st_mode) and self._may_read(path):
                found.setdefault(FileId(status.st_dev, status.st_ino), path)
        return found

    def _may_read(self, path: str) -> bool:
        if os.access(path, os.R_OK):
            self._refused.discard(path)
            return True
        if path not in self._refused:
            self._refused.add(path)
            _logger.warning(
                "no permission to read %s: grant it to the agent's user, or change the pattern", path
            )
        return False


def _names(folder: str) -> Iterator[str]:
    try:
        yield from sorted(os.listdir(folder))
    except OSError:
        return


REMEMBERED_MS = 7 * 24 * 3600 * 1000
"""Retention of the position of a missing file: it may reappear compressed or on another disk."""
SETTLED_SECONDS = 60.0
"""Idle time after which a file that no longer matches a pattern is closed, and an unterminated last line of a replaced
file is complete. Programs keep writing to a renamed file until they are signalled to reopen it."""

_logger = safe_logger(__name__)


class TrackedFile:
    """Known file; `contents` is None while no file with its identity is open."""

    __slots__ = (
        "changed", "contents", "damaged", "grown_at", "key", "listed", "position", "replaced", "scanned"
    )  # fmt: skip

    def __init__(self, key: str, position: FilePosition) -> None:
        self.key = key
        self.position = position
        self.contents: OpenFile | None = None
        self.changed: Changed | None = None  # at the last poll
        self.damaged: Changed | None = None  # at the last failed decompression
        self.grown_at = 0.0
        self.listed = True  # one of its paths matches a pattern
        self.replaced = False  # another file now has its path
        self.scanned = 0  # offset up to which the end of an oversized line was searched

    def close(self) -> None:
        if self.contents is not None:
            self.contents.close()
            self.contents = None


class Tracker:
    """Set of known files. `poll` updates it; `files` yields the open ones, older files of a path first."""

    def __init__(self, patterns: list[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._discovery = Discovery(patterns)
        self._clock = clock
        self._expiry_ms = SystemClock().expiry_ms  # a clock that jumps ahead makes no position old
        self._known: dict[str, TrackedFile] = {}
        self._forgotten: list[str] = []
        self.held: dict[FileId, str] = {}
        """Possible copies of other files, by id; not read."""
        self.truncated = 0

    def restore(self, positions: Mapping[str, FilePosition]) -> None:
        self.close()
        self._known = {key: TrackedFile(key, position) for key, position in positions.items()}

    def close(self) -> None:
        for file in self._known.values():
            file.close()

    @property
    def files(self) -> Iterator[TrackedFile]:
        return (file for file in self._known.values() if file.contents is not None)

    def take_forgotten(self) -> list[str]:
        """Return and clear the keys of expired positions."""
        forgotten, self._forgotten = self._forgotten, []
        return forgotten

    def poll(self) -> list[TrackedFile]:
        """Detect new, rotated, truncated and deleted files; return those closed or missing since the last poll."""
        seen = self._discovery.matching()
        for file in list(self.files):
            self._inspect(file, seen)
        self._reopen(seen)
        missing = [
            file for file in self._known.values() if file.contents is None and not file.position.gone_ms
        ]
        self._admit(seen, missing)
        self._forget_old()
        return self._settle(missing)

    def _inspect(self, file: TrackedFile, seen: Mapping[FileId, str]) -> None:
        """Update size and name of an open file; drop it if its contents were replaced."""
        contents = file.contents
        assert contents is not None
        changed = contents.changed
        if changed != file.changed:
            file.grown_at, file.changed = self._clock(), changed
            if not contents.compressed and not self._is_unchanged(file, changed.size):
                self.lose(file)
                return
        name = seen.get(contents.id)
        file.listed = name is not None
        file.replaced = name != file.position.path and self._is_taken(file)

    def _is_taken(self, file: TrackedFile) -> bool:
        return any(
            other is not file and other.position.path == file.position.path and other.contents is not None
            for other in self._known.values()
        )

    def _is_unchanged(self, file: TrackedFile, size: int) -> bool:
        assert file.contents is not None
        if size < file.position.offset:
            return False
        return not file.position.offset or is_same(file.contents, file.position)

    def lose(self, file: TrackedFile) -> None:
        """Close a truncated or rewritten file. Unread data survives only in a copy made by the rotation."""
        file.close()
        self.truncated += 1
        file.position = msgspec.structs.replace(file.position, inode=0)
        self._drop_unread([file])

    def _reopen(self, seen: Mapping[FileId, str]) -> None:
        """Open known files found at their old path or under a new name."""
        by_inode = {
            FileId(*file.position.inode_key): file for file in self._known.values() if file.contents is None
        }
        for file_id in by_inode.keys() & seen.keys():
            self._resume(by_inode[file_id], seen[file_id])
        for file_id, file in by_inode.items():
            if file.contents is None and file.position.inode and not file.position.gone_ms:
                path = self._discovery.relatives(file.position.path).get(file_id)
                if path is not None:
                    self._resume(file, path)

    def _resume(self, file: TrackedFile, path: str) -> None:
        contents = _opened(path)
        if contents is None:
            return
        try:
            alike = is_same(contents, file.position)
        except UnfinishedError:
            alike = False
        if alike and FileId(*file.position.inode_key) == contents.id:
            self._open(file, contents)
        else:
            contents.close()

    def _admit(self, seen: Mapping[FileId, str], missing: list[TrackedFile]) -> None:
        """Open unknown files: new ones, and rotated versions of known ones."""
        known = {file.contents.id for file in self.files if file.contents is not None}
        self.held = {}
        for file_id, path in seen.items():
            if file_id not in known:
                self._consider(path, may_be_new=True)
        for file in missing:
            if file.contents is None:
                for file_id, path in self._discovery.relatives(file.position.path).items():
                    if file_id not in seen and file_id not in known:
                        self._consider(path, may_be_new=False)

    def _consider(self, path: str, *, may_be_new: bool) -> None:
        contents = _opened(path)
        if contents is None:
            return
        verdict, file = self._judge(contents)
        if verdict is RotationCheck.SAME and file is not None:
            self._open(file, contents)
            return
        if verdict is RotationCheck.ANOTHER and may_be_new and contents.size:
            self._begin(contents, path)
            return
        if verdict is RotationCheck.HELD:
            self.held[contents.id] = path
        contents.close()

    def _judge(self, contents: OpenFile) -> tuple[RotationCheck, TrackedFile | None]:
        try:
            head = contents.read(0, HEAD_BYTES)
        except UnfinishedError:
            return RotationCheck.HELD, None
        worst: tuple[RotationCheck, TrackedFile | None] = (RotationCheck.ANOTHER, None)
        for file in self._alike(head):
            verdict = judge(contents, file.position, file.contents)
            if verdict is RotationCheck.SAME:
                return verdict, file
            if verdict is RotationCheck.HELD:
                worst = (verdict, file)
        return worst

    def _alike(self, head: bytes) -> list[TrackedFile]:
        digests = {
            length: digest(head[:length])
            for length in {file.position.head_length for file in self._known.values()}
            if 0 < length <= len(head)
        }
        return [
            file
            for file in self._known.values()
            if digests.get(file.position.head_length) == file.position.head
            or (len(head) < file.position.head_length and file.contents is not None)
        ]

    def _open(self, file: TrackedFile, contents: OpenFile) -> None:
        file.contents, file.changed, file.grown_at = contents, contents.changed, self._clock()
        file.position = msgspec.structs.replace(
            file.position,
            device=contents.id.device,
            inode=contents.id.inode,
            compressed=contents.compressed,
            gone_ms=0,
        )

    def _begin(self, contents: OpenFile, path: str) -> None:
        key = os.urandom(8).hex()
        file = TrackedFile(key, beginning_of(contents, path))
        self._known[key] = file
        self._open(file, contents)

    def _settle(self, missing: list[TrackedFile]) -> list[TrackedFile]:
        """Close completely read files that no longer grow; mark them and missing files with `gone_ms`."""
        vanished = [file for file in missing if file.contents is None]
        for file in list(self.files):
            contents = file.contents
            assert contents is not None
            ended = not contents.is_linked or (
                not file.listed and self._clock() - file.grown_at >= SETTLED_SECONDS
            )
            if ended and not contents.compressed and file.position.offset >= contents.size:
                file.close()
                vanished.append(file)
        for file in vanished:
            file.position = msgspec.structs.replace(file.position, gone_ms=self._expiry_ms())
        self._drop_unread(vanished)
        return [file for file in vanished if file.position.offset]

    def _drop_unread(self, files: list[TrackedFile]) -> None:
        """Forget files with offset 0: any file with the same head would match their position."""
        for file in files:
            if not file.position.offset:
                del self._known[file.key]

    def _forget_old(self) -> None:
        before = self._expiry_ms() - REMEMBERED_MS
        for key, file in list(self._known.items()):
            if 0 < file.position.gone_ms < before:
                del self._known[key]
                self._forgotten.append(key)


def _opened(path: str) -> OpenFile | None:
    try:
        return open_contents(path)
    except OSError as error:
        _logger.warning("cannot open %s: %s", path, error.strerror)
        return None
