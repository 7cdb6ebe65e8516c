"""Metrics of kafka_exporter for any cluster, from the sampler's snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.console.exporter.server import ExporterServer as ExporterServer
else:
    __getattr__ = lazy_exports(__name__)
