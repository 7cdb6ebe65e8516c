"""Each alarm detects its condition, and none fires in a healthy cluster."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from barnabas.client.status import ProcessStatus, StatusPart
from barnabas.common.types import TopicPartition
from barnabas.metrics.catalogue import CATALOGUE
from barnabas.services.console.alarms.catalogue import ALARMS, BY_NAME
from barnabas.services.console.exporter import lines as exported
from barnabas.services.console.exporter.watch import ClusterFigures
from barnabas.services.console.sampling.snapshot import ClusterSnapshot, GroupSample, LogDirSample
from tests.services.console.exporter.snapshots import broker, commits, group, place, snapshot, topic

WELL = ClusterFigures(
    snapshot(
        [broker(1, dirs=(LogDirSample("/data", 5, 100, 50, ""),)), broker(2)],
        [topic("orders", [place(0, 1, (1, 2), (1, 2))], ends=[10])],
        [group("billing", commits("orders", [(0, 9, 10, 1.0)]))],
    ),
    statuses=(ProcessStatus("pipeline", "shop", "running"),),
)


def _idle(name: str, state: str) -> GroupSample:
    return msgspec.structs.replace(group(name, commits("orders", [(0, 1, 10, 1.0)]), state=state), rate=0.0)


def _measured(**health: Any) -> ClusterFigures:
    """A broker that serves metrics."""
    return ClusterFigures(snapshot([msgspec.structs.replace(broker(1), **health)]))


TROUBLE: dict[str, ClusterFigures] = {
    "UnderMinIsr": _measured(under_min_isr=(TopicPartition("orders", 0),)),
    "CertificateExpires": _measured(certificate_expiry=1.0),
    "BrokerBusy": _measured(loop_busy=95.0),
    "AuditEventsLost": _measured(audit_lost=3.0),
    "MirrorFailed": ClusterFigures(
        snapshot([broker(1)]),
        statuses=(ProcessStatus("mirror", "west", "running", parts=[StatusPart("orders", "failed", "cut")]),),
    ),
    "FiguresAreOld": ClusterFigures(ClusterSnapshot()),
    "BrokerMissing": ClusterFigures(
        snapshot([broker(1)], [topic("orders", [place(0, 1, (1,), (1, 7))], [1])])
    ),
    "NoController": ClusterFigures(msgspec.structs.replace(snapshot([broker(1)]), controller=-1)),
    "LogDirFailed": ClusterFigures(snapshot([broker(1, dirs=(LogDirSample("/d", 0, -1, -1, "broken"),))])),
    "DiskNearlyFull": ClusterFigures(snapshot([broker(1, dirs=(LogDirSample("/d", 95, 100, 5, ""),))])),
    "PartitionOffline": ClusterFigures(
        snapshot([broker(1)], [topic("orders", [place(0, -1, (), (1,))], [1])])
    ),
    "LastReplica": ClusterFigures(
        snapshot([broker(1), broker(2)], [topic("o", [place(0, 1, (1,), (1, 2))], [1])])
    ),
    "UnderReplicated": ClusterFigures(
        snapshot([broker(1), broker(2)], [topic("orders", [place(0, 1, (1,), (1, 2))], [1])])
    ),
    "LeaderNotPreferred": ClusterFigures(
        snapshot([broker(1), broker(2)], [topic("orders", [place(0, 2, (1, 2), (1, 2))], [1])])
    ),
    "GroupLate": ClusterFigures(
        snapshot([broker(1)], groups=[group("g", commits("orders", [(0, 1, 9, 301.0)]))])
    ),
    "GroupStuck": ClusterFigures(snapshot([broker(1)], groups=[_idle("g", "Stable")])),
    "GroupAbandoned": ClusterFigures(snapshot([broker(1)], groups=[_idle("g", "Empty")])),
    "RecordsLost": ClusterFigures(
        snapshot(
            [broker(1)],
            [topic("orders", [place(0)], [10], starts=[5])],
            [group("g", commits("orders", [(0, 3, 10, 1.0)]))],
        )
    ),
    "MoverFailed": ClusterFigures(snapshot([broker(1)]), statuses=(ProcessStatus("mirror", "west", "lost"),)),
    "MoverAlarm": ClusterFigures(
        snapshot([broker(1)]), statuses=(ProcessStatus("pipeline", "s", "running", alarms=["p95"]),)
    ),
}
SEEN = [alarm.name for alarm in ALARMS if alarm.find is not None]


@pytest.mark.parametrize("name", SEEN)
def test_alarm_is_raised_only_for_its_condition(name: str) -> None:
    find = BY_NAME[name].find
    assert find is not None
    assert list(find(WELL)) == []
    (finding,) = find(TROUBLE[name])
    assert finding.text


def test_names_are_unique_and_every_alarm_has_a_remedy() -> None:
    assert len(BY_NAME) == len(ALARMS)
    assert all(alarm.sentence.endswith(".") and alarm.action.endswith(".") for alarm in ALARMS)


def test_expressions_use_metrics_that_there_are() -> None:
    known = {metric.name for metric in (*CATALOGUE, *exported.CATALOGUE)}
    for alarm in ALARMS:
        used = set(re.findall(r"\b(?:kafka|barnabas)_[a-z_]+", alarm.expression))
        assert used, alarm.name
        assert used <= known, alarm.name


def test_lost_records_are_counted_by_offset() -> None:
    find = BY_NAME["RecordsLost"].find
    assert find is not None
    (finding,) = find(TROUBLE["RecordsLost"])
    assert finding.text == "2 offsets of orders were deleted before g had read them."
