"""Waiters of a partition: for new data, for writes, for commits.

A watcher is notified once, and registers again if needed: a disconnected one costs a single call, not one per
append. Followers are notified of every append, consumers only when the high watermark moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.common.errors import ErrorCode

NO_OFFSET = -1

CommitCallback = Callable[[ErrorCode], None]
Awaiting = list[tuple[int, CommitCallback]]


class Watcher(Protocol):
    def partition_changed(self, new_bytes: int) -> None:
        """Handle new data, or a change of the partition's state. Called once."""
        ...


class ReplicaWatcher(Watcher, Protocol):
    def high_watermark_moved(self) -> None:
        """Handle a new high watermark: include it in the follower's next response, without completing a waiting
        fetch."""
        ...


class PartitionWatchers:
    """The waiters of a partition."""

    __slots__ = ("_awaiting_commit", "_awaiting_write", "_replica_watchers", "_watchers")

    def __init__(self) -> None:
        self._watchers: dict[Watcher, None] = {}
        self._replica_watchers: dict[ReplicaWatcher, None] = {}
        self._awaiting_commit: Awaiting = []
        self._awaiting_write: Awaiting = []

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def watch_end(self, watcher: ReplicaWatcher) -> None:
        """Notify of appends, committed or not: for followers."""
        self._replica_watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)
        self._replica_watchers.pop(watcher, None)  # type: ignore[call-overload]

    def log_start_moved(self) -> None:
        self._changed(0)

    def _changed(self, new_bytes: int) -> None:
        self._notify_watchers(new_bytes)
        self._wake_replicas(new_bytes)

    def _notify_watchers(self, new_bytes: int) -> None:
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher.partition_changed(new_bytes)

    def _wake_replicas(self, new_bytes: int) -> None:
        watchers, self._replica_watchers = self._replica_watchers, {}
        for watcher in watchers:
            watcher.partition_changed(new_bytes)

    def _answer(self, waiting: Awaiting, reached: int) -> None:
        """Call back waiters for offsets up to `reached`."""
        done = [each for each in waiting if each[0] <= reached]
        waiting[:] = [each for each in waiting if each[0] > reached]
        for _, callback in done:
            callback(ErrorCode.NONE)

    def _fail_waiting(self, error: ErrorCode, above: int = NO_OFFSET) -> None:
        """Fail waiters for offsets beyond `above`."""
        failures = []
        for waiting in (self._awaiting_write, self._awaiting_commit):
            failed = [each for each in waiting if each[0] > above]
            waiting[:] = [each for each in waiting if each[0] <= above]
            for _, callback in failed:
                try:
                    callback(error)
                except Exception as failure:  # notify the others all the same
                    failures.append(failure)
        if failures:
            raise failures[0]
