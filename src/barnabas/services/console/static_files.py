"""Scripts, styles, fonts and images: read and compressed once, cached by browsers indefinitely.

The URL contains a digest of all files, so a new version has a new URL and modules can import each other by relative
names.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
FOR_EVER = "public, max-age=31536000, immutable"
_KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    kind: str
    plain: bytes
    compressed: bytes


class StaticFiles:
    def __init__(self, folder: Path = FOLDER) -> None:
        found = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.suffix in _KINDS
        }
        digest = hashlib.sha256()
        for name, body in found.items():
            digest.update(name.encode() + b"\0" + body)
        self.prefix = f"/static/{digest.hexdigest()[:16]}/"
        self._files = {
            name: StaticFile(_KINDS[Path(name).suffix], body, gzip.compress(body, 9, mtime=0))
            for name, body in found.items()
        }

    def url(self, name: str) -> str:
        """URL of a file; KeyError if it does not exist."""
        if name not in self._files:
            raise KeyError(name)
        return self.prefix + name

    def find(self, path: str) -> StaticFile | None:
        return self._files.get(path.removeprefix(self.prefix)) if path.startswith(self.prefix) else None
