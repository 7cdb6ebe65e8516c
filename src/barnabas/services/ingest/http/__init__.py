"""HTTP source: accepts JSON, responds 200 after the commit, deduplicates by Idempotency-Key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.ingest.http.settings import HttpSettings as HttpSettings
    from barnabas.services.ingest.http.source import HttpSource as HttpSource
else:
    __getattr__ = lazy_exports(__name__)
