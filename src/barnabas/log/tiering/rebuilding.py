"""Complete restore of a compacted log from the object store.

A compacted log is restored with follower appends, so offsets, epochs and producers are those of the copy. Until it is
complete, a marker file in its folder makes a leader start the restore again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.log import names

if TYPE_CHECKING:
    from barnabas.log.log import Log


def is_unfinished(log: Log) -> bool:
    return log.fs.exists(_mark(log))


def is_lost(log: Log) -> bool:
    """True if the log is empty or its restore is unfinished."""
    return log.log_end_offset == log.log_start_offset or is_unfinished(log)


def begin(log: Log) -> None:
    """Start a restore: write the marker file and empty the log, at offset 0."""
    with log.storage_errors():
        log.fs.write_atomic(_mark(log), b"")
        log.fs.sync_folder(log.folder)
    if log.log_end_offset:
        log.truncate_fully_and_start_at(0)


def finish(log: Log) -> None:
    log.flush()
    forget(log)


def forget(log: Log) -> None:
    """Remove the marker file: the log is complete, or another replica leads and this one is a prefix of it."""
    with log.storage_errors():
        log.fs.remove(_mark(log))
        log.fs.sync_folder(log.folder)


def _mark(log: Log) -> str:
    return f"{log.folder}/{names.REBUILDING}"
