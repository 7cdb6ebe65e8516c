"""Ready pipelines: folders that `barnabas pipeline init --template NAME` copies, with generators of their data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.pipelines.library.records import Generated as Generated
else:
    __getattr__ = lazy_exports(__name__)
