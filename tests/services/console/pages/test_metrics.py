"""`/metrics` of the console."""

from __future__ import annotations

from barnabas.services.console.exporter.watch import ClusterFigures, narrowed
from barnabas.testing import EmbeddedBroker
from tests.services.console.exporter.snapshots import broker, commits, group, place, snapshot, topic
from tests.services.console.web import Web
from tests.support.waiting import eventually


def test_prometheus_reads_the_cluster_below_its_name_and_the_only_one_at_the_root(
    web: Web, console_broker: EmbeddedBroker
) -> None:
    text = eventually(lambda: web.get("/metrics").text, lambda text: "\nkafka_brokers 1\n" in text)
    assert f'kafka_broker_info{{id="1",address="{console_broker.bootstrap_servers}"}} 1' in text
    root = web.ask("GET", "/metrics")
    assert root.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert "\nkafka_brokers 1\n" in root.text


def test_topics_and_groups_that_may_not_be_described_are_left_out() -> None:
    known = ClusterFigures(
        snapshot(
            [broker(1)],
            [topic("open", [place(0)], [1]), topic("secret", [place(0)], [1])],
            [
                group("mine", commits("open", [(0, 1, 1, 0.0)]), commits("secret", [(0, 1, 1, 0.0)])),
                group("theirs", commits("open", [(0, 1, 1, 0.0)])),
            ],
        )
    )
    seen = narrowed(known, {"open"}, {"mine"}).snapshot
    assert list(seen.topics) == ["open"]
    assert [each.topic for each in seen.groups["mine"].topics] == ["open"]
    assert list(seen.groups) == ["mine"]
