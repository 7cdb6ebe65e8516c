"""Partition reassignments: executes a plan in the background and measures its progress.

Brokers persist reassignments in progress, the console those not started yet: a plan survives a restart.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from barnabas.client import Client, ClientError
from barnabas.client.placement import (
    ClusterLayout,
    ReassignmentPlan,
    ReplicaMove,
    describe_layout,
    reassignments,
)
from barnabas.common.errors import KafkaError
from barnabas.common.files import LocalFileSystem
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition
from barnabas.services.console.errors import ConsoleError, StaleError, explain

log = safe_logger(__name__)

RETRY_SECONDS = 10.0
AT_ONCE = 50  # enough to keep disks busy, few enough to cancel


class MoveProgress(msgspec.Struct):
    """Progress of one reassignment."""

    topic: str
    partition: int
    target: list[int]
    adding: list[int]
    removing: list[int]
    bytes: int
    copied: int
    """Bytes copied by the slowest of the new replicas."""
    rate: float | None
    """Bytes per second; None until there are two samples."""

    @property
    def seconds_left(self) -> float | None:
        return (self.bytes - self.copied) / self.rate if self.rate else None


class Meter:
    """Computes copy rates from successive samples of each partition."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, tuple[float, int, float | None]] = {}

    def rates(self, now: float, copied: Mapping[TopicPartition, int]) -> dict[TopicPartition, float | None]:
        """Bytes per second since the last sample; within a second of it, the previous rates."""
        seen: dict[TopicPartition, tuple[float, int, float | None]] = {}
        for tp, reached in copied.items():
            then, before, rate = self._seen.get(tp, (now, reached, None))
            if now - then >= 1:
                then, before, rate = now, reached, max(0.0, (reached - before) / (now - then))
            seen[tp] = (then, before, rate)
        self._seen = seen
        return {tp: rate for tp, (_, _, rate) in seen.items()}


class StoredPlan(msgspec.Struct):
    """Plan in progress, on disk so that it survives the console."""

    moves: list[tuple[str, int, list[int], list[int]]]
    """Topic, partition, replicas before and after."""
    elections: list[tuple[str, int]]
    at_once: int
    by_console: bool
    """Carried out with the console's login; with a user's login, a user must continue it."""

    def plan(self) -> ReassignmentPlan:
        moves = [
            ReplicaMove(TopicPartition(topic, index), tuple(before), tuple(after))
            for topic, index, before, after in self.moves
        ]
        return ReassignmentPlan(moves, [TopicPartition(*each) for each in self.elections], {})


def stored_form(plan: ReassignmentPlan, at_once: int, *, by_console: bool) -> StoredPlan:
    moves = [(*move.partition, list(move.before), list(move.after)) for move in plan.moves]
    elections = [(tp.topic, tp.partition) for tp in plan.elections]
    return StoredPlan(moves, elections, at_once, by_console)


def remaining(plan: ReassignmentPlan, layout: ClusterLayout) -> ReassignmentPlan:
    """Moves that were not started yet. Partitions that were moved, changed by others or deleted are left out."""
    now = layout.assignment
    moves = [move for move in plan.moves if now.get(move.partition) == move.before]
    return ReassignmentPlan(moves, [tp for tp in plan.elections if tp in now], {})


class Mover:
    """Carries out one plan at a time for a cluster. The plan is stored until it is complete or cancelled."""

    def __init__(self, path: Path) -> None:
        self.meter = Meter()
        self.total = 0
        self.done = 0
        self.error = ""
        """Why the last plan failed; reassignments in progress continue."""
        self._path = path
        self._files = LocalFileSystem()
        self._task: asyncio.Task[None] | None = None
        self._resuming: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def interrupted(self) -> StoredPlan | None:
        """The plan of a console that was stopped or killed, until it is continued or cancelled."""
        if self.running:
            return None
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=StoredPlan)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            log.warning("the plan of moves in %s cannot be continued: %s", self._path, error)
            return None

    def start(
        self, client: Client, plan: ReassignmentPlan, at_once: int, *, by_console: bool = False
    ) -> None:
        if self.running:
            raise StaleError("Another plan is in progress: wait for it, or cancel it")
        self._store(stored_form(plan, at_once, by_console=by_console))
        self.total, self.done, self.error = len(plan.moves), 0, ""
        self._task = asyncio.create_task(self._carry_out(client, plan, at_once), name="moves")

    async def resume(self, client: Client) -> int:
        """Continue the interrupted plan; return the number of its remaining moves."""
        stored = self.interrupted()
        if stored is None:
            raise StaleError("No plan was interrupted")
        plan = remaining(stored.plan(), await describe_layout(client))
        self.start(client, plan, stored.at_once, by_console=stored.by_console)
        return len(plan.moves)

    def resume_own(self, client: Client) -> None:
        """Continue a plan that was carried out with the console's login, once the cluster answers."""
        stored = self.interrupted()
        if stored is not None and stored.by_console:
            self._resuming = asyncio.create_task(self._resume_own(client), name="resume moves")

    async def stop(self) -> None:
        """Stop submitting reassignments; those in progress continue, and the next console continues the plan."""
        for task in (self._resuming, self._task):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._task = self._resuming = None

    async def cancel(self) -> None:
        """Stop, and forget the plan."""
        await self.stop()
        self._forget()

    async def _resume_own(self, client: Client) -> None:
        while True:
            try:
                count = await self.resume(client)
            except (ClientError, KafkaError, TimeoutError, OSError):
                await asyncio.sleep(RETRY_SECONDS)
            except StaleError:
                return  # a user was faster
            else:
                log.info("the plan of moves of the last console continues: %d partitions", count)
                return

    def _store(self, stored: StoredPlan) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._files.write_atomic(str(self._path), msgspec.json.encode(stored))
        except OSError as error:
            log.warning(
                "a plan of moves ends with this console, as %s cannot be written: %s", self._path, error
            )

    def _forget(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    async def _carry_out(self, client: Client, plan: ReassignmentPlan, at_once: int) -> None:
        def reached(done: int) -> None:
            self.done = done

        try:
            await reassignments.carry_out(client, plan.moves, at_once, reached)
            failed = await reassignments.elect_preferred(client, plan.elections)
        except Exception as error:
            self.error = _sentence(error)
            return
        self._forget()
        if failed:
            tp, reason = next(iter(failed.items()))
            self.error = f"{len(failed)} partitions have not got their preferred leader; {tp}: {reason}"


def _sentence(error: Exception) -> str:
    known: ConsoleError = explain(error)
    return known.message


def progress_of(layout: ClusterLayout, meter: Meter, now: float) -> list[MoveProgress]:
    sizes = layout.partition_sizes
    copied = {tp: layout.copied(tp) for tp in layout.moving}
    rates = meter.rates(now, copied)
    return [
        MoveProgress(
            *tp,
            list(moving.target),
            list(moving.adding),
            list(moving.removing),
            max(sizes.get(tp, 0), copied[tp]),
            copied[tp],
            rates[tp],
        )
        for tp, moving in sorted(layout.moving.items())
    ]


def digest(plan: ReassignmentPlan) -> str:
    """Identifies a plan: a form made from one plan must not start another."""
    text = repr([(*move.partition, move.before, move.after) for move in plan.moves])
    elections = repr([tuple(tp) for tp in plan.elections])
    return hashlib.sha256((text + elections).encode()).hexdigest()[:16]
