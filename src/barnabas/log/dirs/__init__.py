"""Log dirs: loading, placement, checkpoints, disk failures, and moving a replica from one dir to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.log.dirs.loading import KRAFT_METADATA
    from barnabas.log.dirs.log_dir import FolderInUseError, LogDir
    from barnabas.log.dirs.manager import LogManager
    from barnabas.log.dirs.missing import accept_losses, noted_without_folder
    from barnabas.log.dirs.move import LogDirMove, MoveState
    from barnabas.log.dirs.properties import claim, kernel_boot_id, make_private, write_clean_shutdown
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "loading": "KRAFT_METADATA",
            "log_dir": "FolderInUseError LogDir",
            "manager": "LogManager",
            "missing": "accept_losses noted_without_folder",
            "move": "LogDirMove MoveState",
            "properties": "claim kernel_boot_id make_private write_clean_shutdown",
        },
    )

__all__ = [
    "KRAFT_METADATA",
    "FolderInUseError",
    "LogDir",
    "LogDirMove",
    "LogManager",
    "MoveState",
    "accept_losses",
    "claim",
    "kernel_boot_id",
    "make_private",
    "noted_without_folder",
    "write_clean_shutdown",
]
