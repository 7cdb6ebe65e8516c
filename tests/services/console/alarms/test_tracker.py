"""Start times of alarms, and their minimum duration."""

from __future__ import annotations

import pytest

from barnabas.services.console.alarms import tracker as module
from barnabas.services.console.alarms.tracker import AlarmTracker
from barnabas.services.console.exporter.watch import ClusterFigures
from barnabas.services.console.sampling.snapshot import ClusterSnapshot
from tests.services.console.exporter.snapshots import broker, place, snapshot, topic

OFFLINE = ClusterFigures(snapshot([broker(1)], [topic("orders", [place(0, -1, (), (1,)), place(1)], [1, 1])]))
WELL = ClusterFigures(snapshot([broker(1)], [topic("orders", [place(0), place(1)], [1, 1])]))
START = 1_000_000


def _names(tracker: AlarmTracker) -> list[tuple[str, str, int]]:
    return [(each.alarm.name, each.finding.name, each.since_ms) for each in tracker.firing]


def test_an_alarm_counts_when_it_has_held_long_enough() -> None:
    tracker = AlarmTracker()
    tracker.update(OFFLINE, START)
    assert _names(tracker) == []
    assert [each.finding.name for each in tracker.pending] == ["orders-0", "orders-0"]
    tracker.update(OFFLINE, START + 30_000)
    assert _names(tracker) == [("PartitionOffline", "orders-0", START)]


def test_recovered_alarm_starts_over() -> None:
    tracker = AlarmTracker()
    tracker.update(OFFLINE, START)
    tracker.update(WELL, START + 10_000)
    tracker.update(OFFLINE, START + 20_000)
    tracker.update(OFFLINE, START + 40_000)
    assert _names(tracker) == []
    tracker.update(OFFLINE, START + 50_000)
    assert _names(tracker) == [("PartitionOffline", "orders-0", START + 20_000)]


def test_a_cluster_that_does_not_answer_keeps_its_alarms_and_gets_one_more() -> None:
    tracker = AlarmTracker()
    tracker.update(OFFLINE, START)
    tracker.update(ClusterFigures(OFFLINE.snapshot, age=61), START + 60_000)
    assert [name for name, _, _ in _names(tracker)] == ["PartitionOffline", "FiguresAreOld"]
    tracker.update(ClusterFigures(ClusterSnapshot()), START + 70_000)
    assert [name for name, _, _ in _names(tracker)] == ["PartitionOffline", "FiguresAreOld"]


def test_report_of_a_large_outage_is_bounded_and_counts_omitted_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_FINDINGS", 3)
    tracker = AlarmTracker()
    places = [place(index, -1, (), (1,)) for index in range(10)]
    tracker.update(ClusterFigures(snapshot([broker(1)], [topic("orders", places, [1] * 10)])), START)
    tracker.update(ClusterFigures(snapshot([broker(1)], [topic("orders", places, [1] * 10)])), START + 30_000)
    assert len(tracker.firing) == 3
    assert tracker.more("PartitionOffline") == 7
