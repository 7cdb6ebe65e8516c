"""Tail log files into a topic: discovery by glob pattern, rotation handling, one record per line or event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.ingest.files.source import FilesSettings as FilesSettings
    from barnabas.services.ingest.files.source import FilesSource as FilesSource
else:
    __getattr__ = lazy_exports(__name__)
