"""Recovery of logs at startup, and the functions behind `barnabas log verify` and `barnabas log repair`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.log.recovery.repair import Lost, repair_partition
    from barnabas.log.recovery.replay import replay_batch, transaction_marker
    from barnabas.log.recovery.snapshots import ProducerSnapshotError, decode_snapshot, encode_snapshot
    from barnabas.log.recovery.verification import Damage, PartitionReport, ShutdownKind, verify_partition
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "repair": "Lost repair_partition",
            "replay": "replay_batch transaction_marker",
            "snapshots": "ProducerSnapshotError decode_snapshot encode_snapshot",
            "verification": "Damage PartitionReport ShutdownKind verify_partition",
        },
    )

__all__ = [
    "Damage",
    "Lost",
    "PartitionReport",
    "ProducerSnapshotError",
    "ShutdownKind",
    "decode_snapshot",
    "encode_snapshot",
    "repair_partition",
    "replay_batch",
    "transaction_marker",
    "verify_partition",
]
