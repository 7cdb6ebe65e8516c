"""Barnabas: a Kafka that installs with pip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.tables import Table

__version__ = "0.1.0"


def table(topic: str, **options: Any) -> Table:
    """Open a topic as a table; `barnabas.tables.opening.open_table` documents the options."""
    from barnabas.tables import open_table

    return open_table(topic, **options)
