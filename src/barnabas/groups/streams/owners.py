"""Current owners of tasks, including tasks that still have to be revoked."""

from __future__ import annotations

from collections.abc import Collection

from barnabas.groups.streams.members import StreamsMember
from barnabas.groups.streams.tasks import HeldTasks, StreamsTask


class TaskOwners:
    """An active task has one owner. A process has a task at most once among its standbys and warm-ups."""

    def __init__(self) -> None:
        self._active: dict[StreamsTask, str] = {}
        self._standby: dict[StreamsTask, set[str]] = {}
        self._warmup: dict[StreamsTask, set[str]] = {}

    def active(self, task: StreamsTask) -> str | None:
        return self._active.get(task)

    def has(self, process_id: str, task: StreamsTask) -> bool:
        return self._active.get(task) == process_id or self.has_copy(process_id, task)

    def has_copy(self, process_id: str, task: StreamsTask) -> bool:
        return process_id in self._standby.get(task, ()) or process_id in self._warmup.get(task, ())

    def replace(self, old: StreamsMember | None, new: StreamsMember | None) -> None:
        if old is not None:
            for held in (old.assigned, old.pending_revocation):
                self._remove(held, old.process_id)
        if new is not None:
            for held in (new.assigned, new.pending_revocation):
                self._add(held, new.process_id)

    def _add(self, held: HeldTasks, process_id: str) -> None:
        for task in held.active:
            self._active[task] = process_id
        for tasks, owners in ((held.standby, self._standby), (held.warmup, self._warmup)):
            for task in tasks:
                owners.setdefault(task, set()).add(process_id)

    def _remove(self, held: HeldTasks, process_id: str) -> None:
        for task in held.active:
            if self._active.get(task) == process_id:
                del self._active[task]
        for tasks, owners in ((held.standby, self._standby), (held.warmup, self._warmup)):
            _discard(tasks, owners, process_id)


def _discard(tasks: Collection[StreamsTask], owners: dict[StreamsTask, set[str]], process_id: str) -> None:
    for task in tasks:
        processes = owners.get(task)
        if processes is None:
            continue
        processes.discard(process_id)
        if not processes:
            del owners[task]
