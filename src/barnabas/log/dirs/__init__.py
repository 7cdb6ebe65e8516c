"""Log dirs: loading, placement, checkpoints, disk failures, and moving a replica from one dir to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.log.dirs.disk_health import reserved_bytes as reserved_bytes
    from barnabas.log.dirs.loading import KRAFT_METADATA as KRAFT_METADATA
    from barnabas.log.dirs.loading import Expected as Expected
    from barnabas.log.dirs.loading import LoadReport as LoadReport
    from barnabas.log.dirs.log_dir import LogDir as LogDir
    from barnabas.log.dirs.manager import LogManager as LogManager
    from barnabas.log.dirs.missing import accept_losses as accept_losses
    from barnabas.log.dirs.missing import noted_without_folder as noted_without_folder
    from barnabas.log.dirs.move import LogDirMove as LogDirMove
    from barnabas.log.dirs.move import MoveState as MoveState
    from barnabas.log.dirs.properties import CLEAN_SHUTDOWN as CLEAN_SHUTDOWN
    from barnabas.log.dirs.properties import MetaProperties as MetaProperties
    from barnabas.log.dirs.properties import claim as claim
    from barnabas.log.dirs.properties import kernel_boot_id as kernel_boot_id
    from barnabas.log.dirs.properties import make_private as make_private
    from barnabas.log.dirs.properties import read_identity as read_identity
    from barnabas.log.dirs.properties import write_clean_shutdown as write_clean_shutdown
    from barnabas.log.dirs.slow_writes import WRITERS as WRITERS
    from barnabas.log.dirs.state import FileLogDirState as FileLogDirState
    from barnabas.log.dirs.state import FolderInUseError as FolderInUseError
    from barnabas.log.dirs.state import LogDirState as LogDirState
    from barnabas.log.dirs.state import is_locked as is_locked
else:
    __getattr__ = lazy_exports(__name__)
