"""Clients of a scenario: all of them write and read; some use transactions or commit offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from simulation.clients import Committer, Reader, Writer
from simulation.tiers.topics import (
    Backfiller,
    Expiry,
    PatientReader,
    Pruner,
    first_offset,
    tiered_settings,
)
from simulation.trader import CommittedReader, Trader
from simulation.world import World

PARTITIONS = 2
TRADERS = 3
WITH_TRANSACTIONS = 0.5  # share of scenarios; in the others, consumers commit offsets
TIERED_WITH_TRANSACTIONS = 0.25  # share of tiered scenarios; in the others, records expire


EXPIRIES = (Expiry.DELETE_RECORDS, Expiry.DELETE_RECORDS, Expiry.SIZE, Expiry.AGE, Expiry.AGE)


class Workload:
    def __init__(self, world: World) -> None:
        network, image, rng = world.network, world.image, world.rng
        indexes = range(PARTITIONS)
        self.settings = {"min.insync.replicas": "2"}
        """Topic settings."""
        self.pruner: Pruner | None = None
        self._expiry = Expiry.NONE
        self.writers: Sequence[Writer] = [Writer(network, index, image, rng) for index in indexes]
        self.readers = [Reader(network, index, image, rng) for index in indexes]
        self.committers = [Committer(network, index, image, rng) for index in indexes]
        self.traders = [Trader(network, number, image, rng) for number in range(TRADERS)]
        self.committed_readers = [CommittedReader(network, index, image, rng) for index in indexes]
        likely = WITH_TRANSACTIONS if world.tiers is None else TIERED_WITH_TRANSACTIONS
        self.has_transactions = rng.random() < likely
        if world.tiers is not None:
            self._use_tiers(world)
        self._finite: list[asyncio.Task[None]] = []
        self._all: list[asyncio.Task[None]] = []

    def _use_tiers(self, world: World) -> None:
        """Expire old records in scenarios without transactions; the trader counts all of its records."""
        network, image, rng = world.network, world.image, world.rng
        assert world.tiers is not None
        expiry = self._expiry = Expiry.NONE if self.has_transactions else rng.choice(EXPIRIES)
        self.settings |= tiered_settings(rng, expiry)
        if expiry is Expiry.AGE:
            self.writers = [Backfiller(network, index, image, rng) for index in range(PARTITIONS)]
        if expiry is Expiry.DELETE_RECORDS:
            self.pruner = Pruner(network, image, rng, self.writers)
        if expiry is not Expiry.NONE:
            starts = partial(first_offset, world.tiers, world.machines)
            self.readers = [PatientReader(network, index, image, rng, starts) for index in range(PARTITIONS)]

    def may_start_at(self, index: int) -> int | None:
        """Highest valid log start offset of a partition; None: up to the high watermark."""
        writer = self.writers[index]
        if isinstance(writer, Backfiller):
            return writer.may_start_at()
        if self.pruner is not None:
            return self.pruner.asked[index]
        return None if self._expiry is Expiry.SIZE else 0

    def start(self) -> None:
        self._finite = [asyncio.ensure_future(client.run()) for client in self._with_an_end()]
        endless = [asyncio.ensure_future(reader.run()) for reader in self._without_one()]
        self._all = [*self._finite, *endless]

    def _with_an_end(self) -> list[Writer | Committer | Trader | Pruner]:
        """Clients that finish their current work on request."""
        others = self.traders if self.has_transactions else self.committers
        return [*self.writers, *others, *([self.pruner] if self.pruner else ())]

    def _without_one(self) -> list[Reader]:
        return [*self.readers, *(self.committed_readers if self.has_transactions else ())]

    def ask_to_finish(self) -> None:
        for client in self._with_an_end():
            client.is_to_stop = True

    def stop(self) -> None:
        """Cancel all clients."""
        for task in self._all:
            task.cancel()

    def has_finished(self) -> bool:
        return all(task.done() for task in self._finite)

    def raise_what_failed(self) -> None:
        """Raise the exception of a client that failed with a violation."""
        for task in self._all:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
