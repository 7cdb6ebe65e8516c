"""The exporter's page of a snapshot."""

from __future__ import annotations

import math
import subprocess
from itertools import pairwise
from pathlib import Path
from time import thread_time

from barnabas.client.status import ProcessStatus, StatusPart
from barnabas.services.console.exporter.lines import CATALOGUE, page_lines
from barnabas.services.console.exporter.watch import ClusterFigures
from barnabas.services.console.sampling.snapshot import ClusterSnapshot, LogDirSample
from tests.services.console.exporter.snapshots import broker, commits, group, place, snapshot, topic
from tests.support.programs import find_promtool

HOSTILE = 'a"} 1\nkafka_brokers 99\\'


def text(
    taken: ClusterSnapshot,
    members: dict[str, int] | None = None,
    age: float = 0.0,
    statuses: tuple[ProcessStatus, ...] = (),
) -> str:
    return "".join(page_lines(ClusterFigures(taken, age, members or {}, statuses)))


def samples(page: str, name: str) -> list[str]:
    return [
        line.removeprefix(name) for line in page.splitlines() if line.startswith((name + "{", name + " "))
    ]


def test_partition_metrics_equal_those_of_kafka_exporter() -> None:
    places = [place(0, leader=2, isr=(2,), replicas=(1, 2)), place(1, leader=-1, isr=(), replicas=(2,))]
    page = text(snapshot([broker(1), broker(2)], [topic("orders", places, ends=[17, -1], starts=[4, -1])]))
    first, second = '{topic="orders",partition="0"}', '{topic="orders",partition="1"}'
    assert samples(page, "kafka_brokers") == [" 2"]
    assert samples(page, "kafka_broker_info") == [
        '{id="1",address="kafka:9091"} 1',
        '{id="2",address="kafka:9092"} 1',
    ]
    assert samples(page, "kafka_topic_partitions") == ['{topic="orders"} 2']
    assert samples(page, "kafka_topic_partition_current_offset") == [first + " 17"]
    assert samples(page, "kafka_topic_partition_oldest_offset") == [first + " 4"]
    assert samples(page, "kafka_topic_partition_leader") == [first + " 2"]
    assert samples(page, "kafka_topic_partition_replicas") == [first + " 2", second + " 1"]
    assert samples(page, "kafka_topic_partition_in_sync_replica") == [first + " 1", second + " 0"]
    assert samples(page, "kafka_topic_partition_leader_is_preferred") == [first + " 0", second + " 0"]
    assert samples(page, "kafka_topic_partition_under_replicated_partition") == [first + " 1", second + " 1"]


def test_groups_have_lag_in_records_and_seconds_and_no_sample_where_it_is_not_known() -> None:
    read = commits("orders", [(0, 10, 17, 2.5), (1, 3, 3, 0.0), (2, 8, -1, math.nan)])
    page = text(snapshot(groups=[group("billing", read), group("idle", state="Empty")]), {"billing": 3})
    of = '{consumergroup="billing",topic="orders",partition='
    assert samples(page, "kafka_consumergroup_lag") == [of + '"0"} 7', of + '"1"} 0']
    assert samples(page, "kafka_consumergroup_current_offset") == [
        of + '"0"} 10',
        of + '"1"} 3',
        of + '"2"} 8',
    ]
    assert samples(page, "kafka_consumergroup_lag_seconds") == [of + '"0"} 2.5', of + '"1"} 0']
    assert samples(page, "kafka_consumergroup_lag_sum") == ['{consumergroup="billing",topic="orders"} 7']
    assert samples(page, "kafka_consumergroup_current_offset_sum") == [
        '{consumergroup="billing",topic="orders"} 21'
    ]
    assert samples(page, "kafka_consumergroup_members") == ['{consumergroup="billing"} 3']


def test_log_dirs_and_data_moves_are_audited() -> None:
    dirs = (LogDirSample("/data", 5, 100, 40, ""), LogDirSample("/broken", 0, -1, -1, "KAFKA_STORAGE_ERROR"))
    shop = ProcessStatus(
        "pipeline",
        "shop",
        "failed",
        alarms=["late"],
        parts=[StatusPart("orders", lag=7), StatusPart("views")],
    )
    page = text(snapshot([broker(1, dirs=dirs)]), statuses=(shop,))
    assert samples(page, "barnabas_log_dir_usable_bytes") == ['{broker="1",path="/data"} 40']
    assert samples(page, "barnabas_log_dir_failed") == [
        '{broker="1",path="/data"} 0',
        '{broker="1",path="/broken"} 1',
    ]
    assert samples(page, "barnabas_status_state") == ['{kind="pipeline",name="shop",state="failed"} 1']
    assert samples(page, "barnabas_status_alarms") == ['{kind="pipeline",name="shop"} 1']
    assert samples(page, "barnabas_status_lag") == ['{kind="pipeline",name="shop",part="orders"} 7']


def test_names_from_clients_cannot_inject_log_lines() -> None:
    page = text(snapshot([broker(1)], groups=[group(HOSTILE, commits(HOSTILE, [(0, 1, 1, 0.0)]))]))
    assert samples(page, "kafka_brokers") == [" 1"]
    assert all(line.startswith(("#", "kafka_", "barnabas_")) for line in page.splitlines())


def test_prometheus_reads_the_page(tmp_path: Path) -> None:
    hostile = commits(HOSTILE, [(0, 1, 9, 1.5)])
    page = text(snapshot([broker(1)], [topic("t", [place(0)], [3])], [group(HOSTILE, hostile)]), {HOSTILE: 2})
    done = subprocess.run(
        [find_promtool(), "check", "metrics"], input=page, capture_output=True, text=True, timeout=60
    )
    # Its opinion of kafka_exporter's names does not matter; that it can read them does.
    assert "error while linting" not in done.stderr + done.stdout
    assert done.returncode in (0, 3)


def test_every_metric_of_the_page_is_in_the_catalogue_and_the_other_way_round() -> None:
    page = text(snapshot())
    shown = [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")]
    assert sorted(shown) == sorted(metric.name for metric in CATALOGUE)


def test_old_figures_are_not_shown_as_if_they_were_new() -> None:
    taken = snapshot([broker(1)])
    assert samples(text(taken, age=59), "kafka_brokers") == [" 1"]
    assert samples(text(taken, age=61), "kafka_brokers") == []
    assert samples(text(taken, age=61), "barnabas_console_snapshot_age_seconds") == [" 61"]
    assert samples(text(ClusterSnapshot()), "kafka_brokers") == []


def test_a_large_cluster_is_written_in_small_steps() -> None:
    """The loop can do other things between two lines; the longest step must not depend on the size of the cluster."""
    topics = [
        topic(f"topic-{number}", [place(index) for index in range(4)], [9] * 4) for number in range(5000)
    ]
    groups = [
        group(f"group-{number}", commits(f"topic-{number}", [(index, 1, 9, 0.0) for index in range(4)]))
        for number in range(1000)
    ]
    times = [thread_time()]
    lines = 0
    for _ in page_lines(ClusterFigures(snapshot([broker(1)], topics, groups))):
        lines += 1
        times.append(thread_time())
    assert lines > 7 * 20_000 + 3 * 4_000
    # CPU time of this thread; the garbage collector has its share of some.
    assert sum(after - before > 0.01 for before, after in pairwise(times)) < 20
