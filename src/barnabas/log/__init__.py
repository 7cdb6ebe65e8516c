"""The log of a partition on disk, in Kafka's file formats, and the log directories that hold many of them.

The package is synchronous and owned by one event loop. All file access goes through `barnabas.common.files.FileSystem`,
so tests can run the whole package on a file system that injects failures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.log.checkpoints import HIGH_WATERMARKS as HIGH_WATERMARKS
    from barnabas.log.checkpoints import LOG_STARTS as LOG_STARTS
    from barnabas.log.checkpoints import CheckpointError as CheckpointError
    from barnabas.log.checkpoints import decode_epochs as decode_epochs
    from barnabas.log.checkpoints import decode_offsets as decode_offsets
    from barnabas.log.checkpoints import decode_partition_metadata as decode_partition_metadata
    from barnabas.log.checkpoints import read_if_exists as read_if_exists
    from barnabas.log.epochs import UNDEFINED as UNDEFINED
    from barnabas.log.failures import DISK_FULL as DISK_FULL
    from barnabas.log.failures import DiskFull as DiskFull
    from barnabas.log.failures import LogDirError as LogDirError
    from barnabas.log.flushing import FlushJob as FlushJob
    from barnabas.log.inspection import Inspected as Inspected
    from barnabas.log.inspection import InspectionRequiredError as InspectionRequiredError
    from barnabas.log.inspection import largest_data as largest_data
    from barnabas.log.log import CLIENT as CLIENT
    from barnabas.log.log import AppendResult as AppendResult
    from barnabas.log.log import Log as Log
    from barnabas.log.log import Origin as Origin
    from barnabas.log.names import partition_of_folder as partition_of_folder
    from barnabas.log.offsets import NOTHING_TIERED as NOTHING_TIERED
    from barnabas.log.producer import NO_MARKER as NO_MARKER
    from barnabas.log.producers import ProducerStates as ProducerStates
    from barnabas.log.reader import MAX_LISTED as MAX_LISTED
    from barnabas.log.reader import SHORT_SLICE as SHORT_SLICE
    from barnabas.log.reader import FoundRecord as FoundRecord
    from barnabas.log.reader import aborted_in as aborted_in
    from barnabas.log.reader import first_in_file as first_in_file
    from barnabas.log.replacing import LogUnsettled as LogUnsettled
    from barnabas.log.replacing import ReplaceableLog as ReplaceableLog
else:
    __getattr__ = lazy_exports(__name__)
