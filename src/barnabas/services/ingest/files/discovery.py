"""Find files by glob pattern, and rotation candidates of a missing file."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator

from barnabas.common.safe_logging import safe_logger
from barnabas.services.ingest.files.contents import FileId

_logger = safe_logger(__name__)


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
                "%s may not be read by this user: give the agent the right, or change the pattern", path
            )
        return False


def _names(folder: str) -> Iterator[str]:
    try:
        yield from sorted(os.listdir(folder))
    except OSError:
        return
