"""Tiered storage from the view of the log (KIP-405).

checkpoint    the tiered offsets, stored on the local disk
retention     total retention over both tiers, and local retention
copying       the next sealed segment to copy, with its metadata
rebuilding    logs restored from tiered storage
markers       markers for transactions that lost theirs with the tail of the log
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.log.tiering.copying import (
        CompactedSegment,
        OpenTransaction,
        SealedSegment,
        is_still_there,
        replica_bytes,
        stays_whole,
        to_copy,
        uncopied_sizes,
        whole_parts,
    )
    from barnabas.log.tiering.markers import lost_markers, write_lost_markers
    from barnabas.log.tiering.rebuilding import forget, is_lost, is_unfinished
    from barnabas.log.tiering.retention import RemoteSegment, copies
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "copying": (
                "CompactedSegment OpenTransaction SealedSegment is_still_there replica_bytes stays_whole to_copy "
                "uncopied_sizes whole_parts"
            ),
            "markers": "lost_markers write_lost_markers",
            "rebuilding": "forget is_lost is_unfinished",
            "retention": "RemoteSegment copies",
        },
    )

__all__ = [
    "CompactedSegment",
    "OpenTransaction",
    "RemoteSegment",
    "SealedSegment",
    "copies",
    "forget",
    "is_lost",
    "is_still_there",
    "is_unfinished",
    "lost_markers",
    "replica_bytes",
    "stays_whole",
    "to_copy",
    "uncopied_sizes",
    "whole_parts",
    "write_lost_markers",
]
