"""Recovery of logs at startup, and the functions behind `barnabas log verify` and `barnabas log repair`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.log.recovery.repair import Lost as Lost
    from barnabas.log.recovery.repair import repair_partition as repair_partition
    from barnabas.log.recovery.replay import replay_batch as replay_batch
    from barnabas.log.recovery.replay import transaction_marker as transaction_marker
    from barnabas.log.recovery.snapshots import ProducerSnapshotError as ProducerSnapshotError
    from barnabas.log.recovery.snapshots import decode_snapshot as decode_snapshot
    from barnabas.log.recovery.snapshots import encode_snapshot as encode_snapshot
    from barnabas.log.recovery.verification import Damage as Damage
    from barnabas.log.recovery.verification import PartitionReport as PartitionReport
    from barnabas.log.recovery.verification import ShutdownKind as ShutdownKind
    from barnabas.log.recovery.verification import verify_partition as verify_partition
else:
    __getattr__ = lazy_exports(__name__)
