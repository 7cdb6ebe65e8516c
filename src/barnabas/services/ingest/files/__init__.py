"""Tail log files into a topic: discovery by glob pattern, rotation handling, one record per line or event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.ingest.files.source import FilesSettings, FilesSource
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "source": "FilesSettings FilesSource",
        },
    )

__all__ = ["FilesSettings", "FilesSource"]
