"""A compacted log that was lost gets its records back from its copy in an object store.

It is appended to as a follower's, so offsets, epochs and producers are those of the copy. Until all is there, a file in
its folder says that it is not whole: a leader that finds it begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.log import names

if TYPE_CHECKING:
    from barnabas.log.log import Log


def is_unfinished(log: Log) -> bool:
    return log.fs.exists(_mark(log))


def is_lost(log: Log) -> bool:
    """Is there nothing in it that counts?"""
    return log.log_end_offset == log.log_start_offset or is_unfinished(log)


def begin(log: Log) -> None:
    """Empty, at offset 0."""
    with log.storage_errors():
        log.fs.write_atomic(_mark(log), b"")
        log.fs.sync_folder(log.folder)
    if log.log_end_offset:
        log.truncate_fully_and_start_at(0)


def finish(log: Log) -> None:
    log.flush()
    forget(log)


def forget(log: Log) -> None:
    """It is whole, or another replica leads, and what is here is the beginning of what that has."""
    with log.storage_errors():
        log.fs.remove(_mark(log))
        log.fs.sync_folder(log.folder)


def _mark(log: Log) -> str:
    return f"{log.folder}/{names.REBUILDING}"
