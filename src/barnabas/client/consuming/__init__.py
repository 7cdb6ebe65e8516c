"""Group consumer: membership by the classic or the KIP-848 protocol, and committed positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.consuming.consumer import GroupConsumer as GroupConsumer
else:
    __getattr__ = lazy_exports(__name__)
