"""Data pipelines on Spark: definitions, the runner, quality rules, alarms and the template library.

The modules `connection`, `origin`, `times`, `training`, `log_lines` and `quality.letters` are imported by
pipeline folders of users. The Spark data source and sink are in `barnabas.spark`.
"""

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
