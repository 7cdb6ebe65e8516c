"""Debian's Prometheus scrapes three brokers and the exporter: every expression of others' boards has data, and sums are
true. Too heavy for CI: `make prometheus-boards`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from barnabas.services.console.alarms.catalogue import ALARMS, BY_NAME
from barnabas.services.console.alarms.conditions import Area
from barnabas.testing.embedded_cluster import EmbeddedCluster
from tests.support.kafka.tools import run_tool
from tests.support.programs import find_prometheus, free_port
from tests.support.waiting import until
from tests.support.zookeeper import require_zookeeper
from tools.monitoring.boards import board
from tools.monitoring.rules import rules_file

pytestmark = [pytest.mark.extended, pytest.mark.java, pytest.mark.timeout(600)]

TIMEOUT = 120.0
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = {"orders": 6, "views": 4}
READY = "The exporter is ready on "
LOAD_SECONDS = 45.0
MEANING = {
    "kubernetes_namespace": "kafka",
    "strimzi_cluster_name": "demo",
    "kafka_broker": ".*",
    "kafka_topic": ".*",
    "kafka_partition": ".*",
    "topic": ".*",
    "consumergroup": ".*",
    "job": ".*",
}


def expressions() -> Iterator[tuple[str, str]]:
    name = ""
    for line in Path(__file__).with_name("boards.txt").read_text().splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        elif line and not line.startswith("#"):
            yield name, line


class Prometheus:
    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, expression: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self._url}/api/v1/query?{query}", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found

    def number(self, expression: str) -> float:
        (sample,) = self.ask(expression)
        return float(sample["value"][1])


def wait_for_scrapes(condition: Callable[[], bool], what: str) -> None:
    until(condition, what, TIMEOUT, every=1)


class Place(NamedTuple):
    cluster: EmbeddedCluster
    prometheus: Prometheus
    exporter: str
    """HOST:PORT, as Prometheus calls the instance."""


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield started
    finally:
        started.terminate()
        started.communicate(timeout=60)


@contextmanager
def exporter(bootstrap: str) -> Iterator[str]:
    command = [sys.executable, "-m", "barnabas", "console", "--exporter-only", "--listen", "127.0.0.1:0"]
    with process(*command, "--bootstrap-server", bootstrap) as started:
        assert started.stdout is not None
        line = next(each for each in started.stdout if each.startswith(READY))
        yield urllib.parse.urlsplit(line.removeprefix(READY).strip()).netloc


@contextmanager
def prometheus(folder: Path, targets: dict[str, dict[str, str]]) -> Iterator[Prometheus]:
    """`targets` are the labels of each address; the labels are those that Strimzi's operator gives."""
    common = {"namespace": "kafka", "strimzi_io_cluster": "demo", "container": "kafka"}
    jobs = [
        {
            "job_name": labels["job"],
            "static_configs": [{"targets": [address], "labels": {**common, **labels}}],
        }
        for address, labels in targets.items()
    ]
    for number, job in enumerate(jobs):
        job["job_name"] = f"{job['job_name']}-{number}"  # the label has the rest
    (folder / "rules.yml").write_text(rules_file())
    settings = {
        "global": {"scrape_interval": "2s", "evaluation_interval": "2s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": jobs,
    }
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    port = free_port()
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with process(find_prometheus(), *options, f"--web.listen-address=127.0.0.1:{port}") as started:
        prometheus = Prometheus(f"http://127.0.0.1:{port}")

        def is_there() -> bool:
            assert started.poll() is None, started.communicate()[0]
            try:
                return len(prometheus.ask("up == 1")) == len(targets)
            except OSError:
                return False

        wait_for_scrapes(is_there, "Prometheus does not scrape all targets")
        yield prometheus


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    require_zookeeper()
    with ExitStack() as stack:
        cluster = stack.enter_context(EmbeddedCluster(3, {"barnabas.metrics.listen": "127.0.0.1:0"}))
        for name, partitions in TOPICS.items():
            cluster.create_topic(name, partitions=partitions)
        exported = stack.enter_context(exporter(cluster.bootstrap_servers))
        targets = {exported: {"job": "exporter"}}
        for number, broker in cluster.brokers.items():
            address = f"127.0.0.1:{broker.broker.monitoring.http.port}"
            targets[address] = {"job": "kafka", "kubernetes_pod_name": f"demo-kafka-{number}"}
        folder = tmp_path_factory.mktemp("prometheus")
        yield Place(cluster, stack.enter_context(prometheus(folder, targets)), exported)


@pytest.fixture(scope="module")
def produced(place: Place) -> dict[str, int]:
    """Records by topic, written and partly read by two groups while Prometheus scrapes."""
    settings = {"bootstrap.servers": place.cluster.bootstrap_servers}
    producer = Producer({**settings, "linger.ms": 5})
    counts: defaultdict[str, int] = defaultdict(int)
    with ExitStack() as stack:
        readers = [_reader(settings, name) for name in ("billing", "mail")]
        for reader in readers:
            stack.callback(reader.close)
        end = time.monotonic() + LOAD_SECONDS
        while time.monotonic() < end:
            for topic in TOPICS:
                for _ in range(50):
                    producer.produce(topic, b"x" * 100)
                    counts[topic] += 1
            producer.poll(0)
            for reader in readers:
                for record in reader.consume(60, 0.05):
                    assert record.error() is None
                _commit(reader)
            time.sleep(0.1)
        producer.flush()
        # Exporter metrics are at most ten seconds old.
        _until_settled(place.prometheus, counts)
    return dict(counts)


def _reader(settings: dict[str, Any], group: str) -> Consumer:
    reader = Consumer(
        {**settings, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    reader.subscribe(list(TOPICS))
    return reader


def _commit(reader: Consumer) -> None:
    """Of nothing read since the last commit there is nothing to commit."""
    with suppress(KafkaException):
        reader.commit(asynchronous=False)


def _until_settled(prometheus: Prometheus, counts: dict[str, int]) -> None:
    def is_settled() -> bool:
        return all(
            prometheus.ask(f'sum(kafka_topic_partition_current_offset{{topic="{topic}"}}) == {count}')
            for topic, count in counts.items()
        )

    wait_for_scrapes(is_settled, f"the exporter has not seen {counts}")


def _meant(expression: str, place: Place) -> str:
    for name, value in sorted(MEANING.items(), key=lambda each: -len(each[0])):
        expression = expression.replace(f"${name}", value)
    return expression.replace("$instance", place.exporter)


def test_every_expression_of_the_boards_of_others_has_data(place: Place, produced: dict[str, int]) -> None:
    found = {
        (name, expression): place.prometheus.ask(_meant(expression, place))
        for name, expression in expressions()
    }
    assert [key for key, samples in found.items() if not samples] == []


def test_sums_over_all_instances_are_the_truth(place: Place, produced: dict[str, int]) -> None:
    prometheus = place.prometheus
    ours = 'topic=~"orders|views"'
    partitions, replicas = sum(TOPICS.values()), 3 * sum(TOPICS.values())
    assert prometheus.number(f"sum(kafka_topic_partitions{{{ours}}})") == partitions
    assert prometheus.number(f"count(kafka_topic_partitions{{{ours}}})") == len(TOPICS)
    assert prometheus.number(f"sum(kafka_topic_partition_replicas{{{ours}}})") == replicas
    assert prometheus.number(f"sum(kafka_topic_partition_in_sync_replica{{{ours}}})") == replicas
    assert prometheus.number(f"count(kafka_cluster_partition_replicascount{{{ours}}})") == partitions
    assert prometheus.number("sum(kafka_brokers)") == 3
    assert prometheus.number("sum(kafka_controller_kafkacontroller_activecontrollercount)") == 1
    everything = prometheus.number("sum(kafka_topic_partitions)")
    assert prometheus.number("sum(kafka_controller_kafkacontroller_globalpartitioncount)") == everything
    assert prometheus.number("sum(kafka_server_replicamanager_leadercount)") == everything
    for topic, count in produced.items():
        of = f'{{topic="{topic}"}}'
        assert prometheus.number(f"sum(kafka_topic_partition_current_offset{of})") == count
        assert prometheus.number(f"sum(kafka_server_brokertopicmetrics_messagesin_total{of})") == count


def test_the_lag_is_that_of_kafka_consumer_groups(place: Place, produced: dict[str, int]) -> None:
    for group in ("billing", "mail"):
        tool = run_tool(
            GROUPS, "--bootstrap-server", place.cluster.bootstrap_servers, "--describe", "--group", group
        ).check()
        rows = [line.split() for line in tool.stdout.splitlines() if line.startswith(group)]
        lags = {(row[1], row[2]): float(row[5]) for row in rows if row[3] != "-"}
        labels = f'{{consumergroup="{group}"}}'

        def seen(labels: str = labels) -> dict[tuple[str, str], float]:
            return {
                (each["metric"]["topic"], each["metric"]["partition"]): float(each["value"][1])
                for each in place.prometheus.ask(f"kafka_consumergroup_lag{labels}")
            }

        wait_for_scrapes(lambda seen=seen, lags=lags: seen() == lags, f"{seen()} is not {lags}")  # type: ignore[misc]
        assert place.prometheus.number(f"sum(kafka_consumergroup_lag_sum{labels})") == sum(lags.values())


def test_every_curve_of_our_own_boards_has_data(place: Place, produced: dict[str, int]) -> None:
    """But those of pipelines, of which none runs here."""
    for area in (Area.CLUSTER, Area.TOPICS, Area.GROUPS):
        for panel in json.loads(board(area))["panels"]:
            for target in panel["targets"]:
                expression = _meant(target["expr"].replace("$instance", ".*"), place)
                assert place.prometheus.ask(expression), (panel["title"], expression)


def test_rules_fire_only_when_a_broker_is_down(place: Place, produced: dict[str, int]) -> None:
    """The last test: it stops a broker."""
    quiet = [alarm.name for alarm in ALARMS if alarm.name not in ("GroupAbandoned", "LeaderNotPreferred")]
    loud = {name: place.prometheus.ask(BY_NAME[name].expression) for name in quiet}
    assert {name: samples for name, samples in loud.items() if samples} == {}
    place.cluster.brokers[3].stop()
    for name in ("UnderReplicated", "BrokerMissing"):
        expression = BY_NAME[name].expression
        wait_for_scrapes(lambda prometheus=expression: bool(place.prometheus.ask(prometheus)), name)  # type: ignore[misc]
    alerts = 'ALERTS{alertname="UnderReplicated"}'
    wait_for_scrapes(lambda: bool(place.prometheus.ask(alerts)), "no alert")
