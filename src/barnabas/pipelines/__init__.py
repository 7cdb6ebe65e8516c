"""Data pipelines on Spark: the data source, the sink, and what runs pipelines. The only importer of pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.pipelines.connection import connection_options, security_of, settings_from
    from barnabas.pipelines.terminal import LiveScreen
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "connection": "connection_options security_of settings_from",
            "terminal": "LiveScreen",
        },
    )

__all__ = ["LiveScreen", "connection_options", "security_of", "settings_from"]
