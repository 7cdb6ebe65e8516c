"""Metrics of the groups that this broker coordinates, of every type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from barnabas.common.clock import Clock
from barnabas.groups.classic.group import ClassicGroupState
from barnabas.groups.coordinator import GroupCoordinator
from barnabas.groups.group import GroupType
from barnabas.groups.modern import ModernGroupState
from barnabas.groups.shard import GroupShard
from barnabas.metrics import Registry, Sample, catalogue

FRESH_SECONDS = 1.0  # one count of the groups serves all metrics of a scrape

BY_CLASSIC_STATE = {
    ClassicGroupState.PREPARING_REBALANCE: catalogue.CLASSIC_GROUPS_PREPARING,
    ClassicGroupState.COMPLETING_REBALANCE: catalogue.CLASSIC_GROUPS_COMPLETING,
    ClassicGroupState.STABLE: catalogue.CLASSIC_GROUPS_STABLE,
    ClassicGroupState.DEAD: catalogue.CLASSIC_GROUPS_DEAD,
    ClassicGroupState.EMPTY: catalogue.CLASSIC_GROUPS_EMPTY,
}
_MODERN = (
    ModernGroupState.EMPTY,
    ModernGroupState.ASSIGNING,
    ModernGroupState.RECONCILING,
    ModernGroupState.STABLE,
    ModernGroupState.DEAD,
)
BY_MODERN_TYPE = {
    GroupType.CONSUMER: (catalogue.CONSUMER_GROUPS, _MODERN),
    GroupType.SHARE: (
        catalogue.SHARE_GROUPS,
        (ModernGroupState.EMPTY, ModernGroupState.STABLE, ModernGroupState.DEAD),
    ),
    GroupType.STREAMS: (catalogue.STREAMS_GROUPS, (*_MODERN, ModernGroupState.NOT_READY)),
}


class GroupCounts:
    """Number of groups by type and state, with the names of Kafka's tools."""

    def __init__(self, clock: Clock, coordinator: GroupCoordinator) -> None:
        self._clock = clock
        self._coordinator = coordinator
        self._counted_at = float("-inf")
        self._states: Counter[tuple[GroupType, str]] = Counter()

    def of(self, group_type: GroupType, state: str | None = None) -> int:
        counts = self._current()
        if state is not None:
            return counts[group_type, state]
        return sum(count for (counted, _), count in counts.items() if counted is group_type)

    def offsets(self) -> int:
        """Committed offsets of all groups."""
        stores = (shard.offsets for shard in self._shards())
        return sum(len(store.of_group(group)) for store in stores for group in store.groups())

    def _current(self) -> Counter[tuple[GroupType, str]]:
        now = self._clock.monotonic()
        if now - self._counted_at >= FRESH_SECONDS:
            self._counted_at = now
            groups = (group for shard in self._shards() for group in shard.groups.values())
            self._states = Counter((group.group_type, group.state_name) for group in groups)
        return self._states

    def _shards(self) -> Iterator[GroupShard]:
        """Groups that are being loaded are not counted yet."""
        return (shard for _, shard in self._coordinator.runtime.shards())


def declare_group_metrics(registry: Registry, clock: Clock, coordinator: GroupCoordinator) -> None:
    counts = GroupCounts(clock, coordinator)
    registry.computed(catalogue.GROUPS, lambda: _by_type(counts))
    registry.read_by(catalogue.CLASSIC_GROUPS, lambda: counts.of(GroupType.CLASSIC))
    registry.read_by(catalogue.GROUP_OFFSETS, counts.offsets)
    for state, metric in BY_CLASSIC_STATE.items():
        registry.read_by(metric, _reader(counts, GroupType.CLASSIC, state.value))
    for group_type, (metric, states) in BY_MODERN_TYPE.items():
        registry.computed(metric, _by_state(counts, group_type, states))


def _reader(counts: GroupCounts, group_type: GroupType, state: str) -> Callable[[], int]:
    return lambda: counts.of(group_type, state)


def _by_type(counts: GroupCounts) -> Iterator[Sample]:
    for group_type in GroupType:
        yield Sample("", (("protocol", group_type.value),), counts.of(group_type))


def _by_state(
    counts: GroupCounts, group_type: GroupType, states: Iterable[ModernGroupState]
) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        for state in states:
            yield Sample("", (("state", state.value),), counts.of(group_type, state.value))

    return samples
