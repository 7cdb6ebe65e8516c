"""The log of a partition on disk, in Kafka's file formats, and the log directories that hold many of them.

The package is synchronous and owned by one event loop. All file access goes through `barnabas.common.files.FileSystem`,
so tests can run the whole package on a file system that injects failures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.log.checkpoints import (
        HIGH_WATERMARKS,
        LOG_STARTS,
        CheckpointError,
        decode_epochs,
        decode_offsets,
        decode_partition_metadata,
        read_if_there,
    )
    from barnabas.log.epochs import UNDEFINED
    from barnabas.log.failures import DISK_FULL, DiskFull, LogDirError
    from barnabas.log.flushing import FlushJob
    from barnabas.log.inspection import Inspected, InspectionRequiredError, largest_data
    from barnabas.log.log import CLIENT, AppendResult, Log, Origin
    from barnabas.log.names import partition_of_folder
    from barnabas.log.offsets import NOTHING_TIERED
    from barnabas.log.producer import NO_MARKER
    from barnabas.log.producers import ProducerStates
    from barnabas.log.replacing import LogUnsettled, ReplaceableLog
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "checkpoints": (
                "CheckpointError HIGH_WATERMARKS LOG_STARTS decode_epochs decode_offsets "
                "decode_partition_metadata read_if_there"
            ),
            "epochs": "UNDEFINED",
            "failures": "DISK_FULL DiskFull LogDirError",
            "flushing": "FlushJob",
            "inspection": "Inspected InspectionRequiredError largest_data",
            "log": "AppendResult CLIENT Log Origin",
            "names": "partition_of_folder",
            "offsets": "NOTHING_TIERED",
            "producer": "NO_MARKER",
            "producers": "ProducerStates",
            "replacing": "LogUnsettled ReplaceableLog",
        },
    )

__all__ = [
    "CLIENT",
    "DISK_FULL",
    "HIGH_WATERMARKS",
    "LOG_STARTS",
    "NOTHING_TIERED",
    "NO_MARKER",
    "UNDEFINED",
    "AppendResult",
    "CheckpointError",
    "DiskFull",
    "FlushJob",
    "Inspected",
    "InspectionRequiredError",
    "Log",
    "LogDirError",
    "LogUnsettled",
    "Origin",
    "ProducerStates",
    "ReplaceableLog",
    "decode_epochs",
    "decode_offsets",
    "decode_partition_metadata",
    "largest_data",
    "partition_of_folder",
    "read_if_there",
]
