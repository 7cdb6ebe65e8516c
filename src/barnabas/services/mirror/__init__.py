"""`barnabas mirror`: replicates topics, groups and ACLs of one or more clusters to another cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.mirror.partition import Following
    from barnabas.services.mirror.plan import PlanError
    from barnabas.services.mirror.reporter import mirror_metrics
    from barnabas.services.mirror.runner import LinkRunner, open_link, run_links, unless_stopped
    from barnabas.services.mirror.settings import MirrorSettings, SourceAddress, check_sources, parse_source
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "partition": "Following",
            "plan": "PlanError",
            "reporter": "mirror_metrics",
            "runner": "LinkRunner open_link run_links unless_stopped",
            "settings": "MirrorSettings SourceAddress check_sources parse_source",
        },
    )

__all__ = [
    "Following",
    "LinkRunner",
    "MirrorSettings",
    "PlanError",
    "SourceAddress",
    "check_sources",
    "mirror_metrics",
    "open_link",
    "parse_source",
    "run_links",
    "unless_stopped",
]
