"""Paths in NAME.yml."""

from __future__ import annotations

import re
from pathlib import Path

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def url_of(path: str, folder: Path) -> str:
    """A URL as it is; a path starts in the folder of NAME.yml, if it is no absolute one."""
    if _SCHEME.match(path):
        return path
    return f"file://{folder.resolve() / path}"
