"""kafka_exporter's metrics of any cluster, from what the sampler knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.console.exporter.server import ExporterServer
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "server": "ExporterServer",
        },
    )

__all__ = ["ExporterServer"]
