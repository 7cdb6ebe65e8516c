"""Partition reassignments: executes a plan in the background and measures its progress.

Brokers persist reassignments in progress, so a console that exits loses only those not started yet.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from barnabas.client import Client
from barnabas.client.placement import ClusterLayout, ReassignmentPlan, reassignments
from barnabas.common.types import TopicPartition
from barnabas.services.console.errors import ConsoleError, StaleError, explain

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


class Mover:
    """Carries out one plan at a time for a cluster."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.total = 0
        self.done = 0
        self.error = ""
        """Why the last plan failed; reassignments in progress continue."""
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self, client: Client, plan: ReassignmentPlan, at_once: int) -> None:
        if self.running:
            raise StaleError("Another plan is in progress: wait for it, or cancel it")
        self.total, self.done, self.error = len(plan.moves), 0, ""
        self._task = asyncio.create_task(self._carry_out(client, plan, at_once), name="moves")

    async def stop(self) -> None:
        """Stop submitting reassignments; those in progress continue."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _carry_out(self, client: Client, plan: ReassignmentPlan, at_once: int) -> None:
        def reached(done: int) -> None:
            self.done = done

        try:
            await reassignments.carry_out(client, plan.moves, at_once, reached)
            failed = await reassignments.elect_preferred(client, plan.elections)
        except Exception as error:
            self.error = _sentence(error)
            return
        if failed:
            tp, why = next(iter(failed.items()))
            self.error = f"{len(failed)} partitions have not got their preferred leader; {tp}: {why}"


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
