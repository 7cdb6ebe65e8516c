"""Host metrics: kernel counters and Prometheus counters of local programs, as rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.ingest.host.pages import page_of as page_of
    from barnabas.services.ingest.host.source import HostSettings as HostSettings
    from barnabas.services.ingest.host.source import HostSource as HostSource
else:
    __getattr__ = lazy_exports(__name__)
