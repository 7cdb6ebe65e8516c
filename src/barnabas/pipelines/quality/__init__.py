"""Quality rules as Spark columns: rows are counted, dropped, refused or set aside by what a rule says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.pipelines.quality.letters import letters_of
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "letters": "letters_of",
        },
    )

__all__ = ["letters_of"]
