"""`barnabas mirror`: replicates topics, groups and ACLs of one or more clusters to another cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.services.mirror.partition import Following as Following
    from barnabas.services.mirror.plan import PlanError as PlanError
    from barnabas.services.mirror.reporter import mirror_metrics as mirror_metrics
    from barnabas.services.mirror.runner import LinkRunner as LinkRunner
    from barnabas.services.mirror.runner import open_link as open_link
    from barnabas.services.mirror.runner import run_links as run_links
    from barnabas.services.mirror.runner import unless_stopped as unless_stopped
    from barnabas.services.mirror.settings import MirrorSettings as MirrorSettings
    from barnabas.services.mirror.settings import SourceAddress as SourceAddress
    from barnabas.services.mirror.settings import check_sources as check_sources
    from barnabas.services.mirror.settings import parse_source as parse_source
else:
    __getattr__ = lazy_exports(__name__)
