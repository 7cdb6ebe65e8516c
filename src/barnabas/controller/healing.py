"""Automatic reassignments by the controller: replace replicas of brokers that stay away, and spread replicas
and leaders
when brokers join. Both are off by default.

Theory of operation. `review` is called periodically with the newest image and returns the reassignments to
start or
cancel; the controller submits them as it would for a client. All state besides the image is in memory only:
when a
broker was last seen, and which replacements were started here. A new controller counts from its election.

- A broker that is away for longer than `replace_after` loses its replicas, a few partitions at a time, to the
brokers
  with the fewest. Not while more than a third of the brokers is away: that indicates a network or power
  failure.
- If it returns, replacements in progress are cancelled; completed ones stay.
- New brokers get replicas once nothing has changed for `quiet` seconds, no broker is away and no reassignment
is in
  progress. Manual placement by an operator stays until the next broker joins.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple, TypeAlias

from barnabas.client.placement import Assignment, Site, drain, rebalance
from barnabas.cluster.image import MetadataImage
from barnabas.common.types import TopicPartition

Targets: TypeAlias = dict[TopicPartition, tuple[int, ...] | None]
"""Target replicas of partitions; None cancels a reassignment."""

MAX_PART_AWAY = 3
"""Replacements stop while more than one broker in this many is away."""


class HealingSettings(NamedTuple):
    replace_after: float | None
    """Seconds; None for never."""
    balances: bool
    quiet: float
    at_once: int
    """Limit of concurrent reassignments."""

    @property
    def is_on(self) -> bool:
        return self.balances or self.replace_after is not None

    @property
    def shortest_wait(self) -> float:
        """The earliest time at which a broker change may require an action, in seconds."""
        return self.quiet if self.replace_after is None else min(self.quiet, self.replace_after)


class Healing:
    """State kept between reviews; one object per controller term."""

    def __init__(self) -> None:
        self._alive: frozenset[int] | None = None
        self._changed_at = 0.0
        self._away_since: dict[int, float] = {}
        self._replacing: dict[TopicPartition, int] = {}
        self._has_come = False

    def review(self, image: MetadataImage, settings: HealingSettings, now: float) -> Targets:
        """The reassignments to start and to cancel."""
        self._watch(image, now)
        targets = self._returned(image)
        room = settings.at_once - sum(1 for _ in _moving(image))
        if targets or room <= 0:
            return targets
        if settings.replace_after is not None:
            targets = self._replacements(image, now - settings.replace_after, room)
        if not targets and settings.balances and self._is_quiet(image, settings, now):
            targets = self._balancing(image, room)
        return targets

    # -- broker membership -------------------------------------------------------------------------

    def _watch(self, image: MetadataImage, now: float) -> None:
        alive = frozenset(broker for broker in image.brokers if image.can_lead(broker))
        if self._alive is None:
            self._has_come = _has_empty_broker(image, alive)
        elif alive - self._alive:
            self._has_come = True
        if alive != self._alive:
            self._alive, self._changed_at = alive, now
        away = set(image.brokers) - alive
        self._away_since = {broker: self._away_since.get(broker, now) for broker in away}

    def _is_quiet(self, image: MetadataImage, settings: HealingSettings, now: float) -> bool:
        return (
            self._has_come
            and now - self._changed_at >= settings.quiet
            and not self._away_since
            and not any(_moving(image))
        )

    # -- brokers that stay away --------------------------------------------------------------------

    def _returned(self, image: MetadataImage) -> Targets:
        moving = set(_moving(image))
        self._replacing = {tp: dead for tp, dead in self._replacing.items() if tp in moving}
        return {tp: None for tp, dead in self._replacing.items() if image.can_lead(dead)}

    def _replacements(self, image: MetadataImage, before: float, room: int) -> Targets:
        if len(self._away_since) * MAX_PART_AWAY > len(image.brokers):
            return {}
        targets: Targets = {}
        for dead in sorted(broker for broker, since in self._away_since.items() if since <= before):
            assignment = _without_stuck(image, dead, targets)
            for move in drain(assignment, _sites(image), dead)[: room - len(targets)]:
                targets[move.partition] = move.after
                self._replacing[move.partition] = dead
        return targets

    # -- brokers that have joined ------------------------------------------------------------------

    def _balancing(self, image: MetadataImage, room: int) -> Targets:
        moves = rebalance(_settled(image), _sites(image))
        self._has_come = bool(moves)
        return {move.partition: move.after for move in moves[:room]}


def _sites(image: MetadataImage) -> list[Site]:
    return [
        Site(broker, state.host, state.rack)
        for broker, state in sorted(image.brokers.items())
        if image.can_lead(broker)
    ]


def _moving(image: MetadataImage) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index)
        for topic, index, state in image.partitions()
        if state.being_reassigned
    ]


def _settled(image: MetadataImage) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(topic.name, index): state.replicas
        for topic, index, state in image.partitions()
        if not state.being_reassigned
    }


def _without_stuck(image: MetadataImage, dead: int, chosen: Container[TopicPartition]) -> Assignment:
    """All settled assignments, without the partitions of a lost broker that have no replacement broker,
    no leader to copy
    from, or a reassignment already.
    """
    alive = {broker for broker in image.brokers if image.can_lead(broker)}

    def is_stuck(tp: TopicPartition, replicas: tuple[int, ...]) -> bool:
        state = image.partition(*tp)
        has_leader = state is not None and state.leader in alive
        return dead in replicas and (tp in chosen or not has_leader or alive <= set(replicas))

    return {tp: replicas for tp, replicas in _settled(image).items() if not is_stuck(tp, replicas)}


def _has_empty_broker(image: MetadataImage, alive: frozenset[int]) -> bool:
    """True if a broker holds no replicas: it may have joined before this controller was elected."""
    held = {broker for _, _, state in image.partitions() for broker in state.replicas}
    return bool(held) and bool(alive - held)
