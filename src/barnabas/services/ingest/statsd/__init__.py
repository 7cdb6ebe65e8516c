"""statsd source: aggregates counters, gauges, timers and sets per interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.ingest.statsd.source import DEFAULT_LISTEN as DEFAULT_LISTEN
    from barnabas.services.ingest.statsd.source import StatsdSettings as StatsdSettings
    from barnabas.services.ingest.statsd.source import StatsdSource as StatsdSource
else:
    __getattr__ = lazy_exports(__name__)
