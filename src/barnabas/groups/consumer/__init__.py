"""Consumer groups, the protocol of KIP-848: the coordinator assigns, and members follow one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.groups.consumer.checks import check_heartbeat as check_heartbeat
    from barnabas.groups.consumer.describe import described as described
else:
    __getattr__ = lazy_exports(__name__)
