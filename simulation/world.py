"""Environment of a scenario: random numbers, time, machines, the network between them, and the event log."""

from __future__ import annotations

import random

from barnabas.cluster.deltas import apply
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage
from barnabas.testing.in_memory_cluster import MemoryCluster
from simulation.brokers import (
    SESSION_TIMEOUT,
    Machine,
    SimulatedBroker,
    Tiers,
    draw_variant,
)
from simulation.loop import VirtualLoop
from simulation.network import Network

MACHINES = (3, 4)  # with four, a partition can move to another machine


class World:
    def __init__(self, seed: int, *, tiered: bool = False) -> None:
        self.events: list[str] = []
        self.loop = VirtualLoop()
        self.rng = random.Random(seed)
        self.network = Network(self.rng, self.loop)
        self.cluster = MemoryCluster(SESSION_TIMEOUT, self.network.delay)
        self.tiers = Tiers(seed, self.network) if tiered else None
        self.variant = draw_variant(self.rng)
        self.machines = [
            Machine(number, self.cluster, self.network, self.loop, self.rng, self.variant, self.tiers)
            for number in range(1, self.rng.choice(MACHINES) + 1)
        ]
        self._head: tuple[int, MetadataImage] = (0, EMPTY_IMAGE)

    def note(self, text: str) -> None:
        self.events.append(f"{self.loop.time():8.3f} {text}")

    def image(self) -> MetadataImage:
        """Image of the complete metadata log, regardless of how far each broker has replayed it."""
        known, image = self._head
        if known != len(self.cluster.entries):
            for entry in self.cluster.entries[known:]:
                image = apply(image, entry.deltas)
            self._head = len(self.cluster.entries), image
        return image

    def controller(self) -> SimulatedBroker | None:
        active = (machine.broker for machine in self.machines if machine.serves and machine.broker)
        return next((broker for broker in active if broker.controller.is_active), None)

    def pick(self, *, up: bool) -> Machine | None:
        """Random machine that has a broker (`up`) or has none."""
        fitting = [machine for machine in self.machines if machine.is_up == up]
        return self.rng.choice(fitting) if fitting else None
