"""Quality rules as Spark columns: rows that violate a rule are counted, dropped, quarantined or fail the query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.pipelines.quality.letters import letters_of as letters_of
else:
    __getattr__ = lazy_exports(__name__)
