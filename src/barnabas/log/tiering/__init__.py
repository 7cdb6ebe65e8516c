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
    from barnabas.log.tiering.copying import CompactedSegment as CompactedSegment
    from barnabas.log.tiering.copying import OpenTransaction as OpenTransaction
    from barnabas.log.tiering.copying import SealedSegment as SealedSegment
    from barnabas.log.tiering.copying import replica_bytes as replica_bytes
    from barnabas.log.tiering.copying import stays_whole as stays_whole
    from barnabas.log.tiering.copying import still_exists as still_exists
    from barnabas.log.tiering.copying import to_copy as to_copy
    from barnabas.log.tiering.copying import uncopied_sizes as uncopied_sizes
    from barnabas.log.tiering.copying import whole_parts as whole_parts
    from barnabas.log.tiering.markers import lost_markers as lost_markers
    from barnabas.log.tiering.markers import write_lost_markers as write_lost_markers
    from barnabas.log.tiering.rebuilding import forget as forget
    from barnabas.log.tiering.rebuilding import is_lost as is_lost
    from barnabas.log.tiering.rebuilding import is_unfinished as is_unfinished
    from barnabas.log.tiering.remote_segments import RemoteSegment as RemoteSegment
    from barnabas.log.tiering.retention import copies as copies
else:
    __getattr__ = lazy_exports(__name__)
