"""Progress of pipelines as a StreamingQueryListener receives it."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from barnabas.pipelines.progress import offsets_behind
from barnabas.pipelines.running.backfill import Backfill
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.pipelines.running.measures import HOTTEST, MakeRunner, add_file, rows
from tests.support.waiting import until

FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()
spark.streams.addListener(spark.listener)
broker = {"kafka.bootstrap.servers": spark.conf.get("barnabas.bootstrap.servers")}

@dp.temporary_view
def read():
    stream = spark.readStream.format("barnabas").options(**broker).option("subscribe", "SOURCE")
    stream = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "4").load()
    return stream.selectExpr("CAST(value AS STRING) machine", "CAST(CAST(value AS STRING) AS DOUBLE) heat")

@dp.table
def warm():
    return spark.readStream.table("read")

dp.create_sink("out", "barnabas", {**broker, "topic": "TARGET"})

@dp.append_flow(target="out")
def send():
    return spark.readStream.table("read").selectExpr("machine AS value")
"""
SETTINGS = """
trigger: 100 milliseconds
refresh: 1 second
quality: [{dataset: warm, name: plausible, condition: heat < 8}]
"""


class Listener(StreamingQueryListener):
    """Collects events by the name of the query."""

    def __init__(self) -> None:
        self.names: dict[Any, str | None] = {}
        self.heard: list[tuple[str, str | None]] = []
        self.progress: dict[str | None, list[Any]] = {}
        self.errors: list[str] = []

    def onQueryStarted(self, event: Any) -> None:
        self.names[event.id] = event.name
        self.heard.append(("started", event.name))

    def onQueryProgress(self, event: Any) -> None:
        self.progress.setdefault(event.progress.name, []).append(event.progress)

    def onQueryIdle(self, event: Any) -> None:
        self.heard.append(("idle", self.names[event.id]))

    def onQueryTerminated(self, event: Any) -> None:
        self.heard.append(("terminated", self.names[event.id]))
        self.errors += [event.exception] if event.exception else []

    def rows(self, name: str) -> int:
        return int(self.progress[name][-1].sink.numOutputRows) if name in self.progress else 0

    def has_heard(self, kind: str, names: set[str]) -> bool:
        return {name for received, name in self.heard if received == kind} >= names


@pytest.fixture
def listener(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """Registered in the session of the program."""
    made = Listener()
    spark.streams.addListener(made)
    yield made
    spark.streams.removeListener(made)


def test_every_flow_and_view_has_its_events(
    make: MakeRunner,
    tmp_path: Path,
    broker: EmbeddedBroker,
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = Listener()
    monkeypatch.setattr(SparkSession, "listener", own, raising=False)
    source = broker.create_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(10):
        producer.produce(source, str(number))
    assert producer.flush(30) == 0
    python = FLOWS.replace("SOURCE", source).replace("TARGET", broker.create_topic())
    servers = broker.bootstrap_servers
    runner = make(SETTINGS, python=python, bootstrap=servers)
    runner.session.conf.set("spark.sql.streaming.noDataProgressEventInterval", "200")
    name = runner.files.name
    flows = {f"{name}.warm", f"{name}.send"}
    names = flows | {f"{name}.hottest"}
    run = threading.Thread(target=runner.run_continuously)
    run.start()
    try:
        until(lambda: listener.has_heard("started", names) and listener.has_heard("idle", flows), every=0.1)
        until(lambda: listener.rows(f"{name}.hottest") == 10, every=0.1)
    finally:
        runner.stop()
        run.join(60)
    until(lambda: listener.has_heard("terminated", names) and own.has_heard("terminated", names), every=0.1)

    batches = [one for one in listener.progress[f"{name}.send"] if one.numInputRows]
    assert [one.sink.numOutputRows for one in batches] == [4, 4, 2]
    assert [offsets_behind(one.sources[0]) for one in batches] == [
        {f"{source}-0": behind} for behind in (6, 2, 0)
    ]
    observed = [one.observedMetrics["quality:warm"] for one in listener.progress[f"{name}.warm"]][:3]
    assert [(row.rows, row.plausible) for row in observed] == [(4, 0), (4, 0), (2, 2)]
    assert listener.progress[f"{name}.hottest"][0].batchId == 0
    assert [kind for kind, query in listener.heard if query == f"{name}.hottest"] == ["started", "terminated"]

    backfill = Backfill.parse("send", "earliest", f'{{"{source}": {{"0": 1}}}}')
    filled = make(SETTINGS, python=python, bootstrap=servers, backfill=backfill)
    filled.run_once()
    (query,) = filled.plan.queries
    until(lambda: ("terminated", f"{name}.{query.name}") in own.heard)
    assert own.heard.count(("started", f"{name}.{query.name}")) == 1


def test_a_view_that_fails_ends_with_its_error(make: MakeRunner, tmp_path: Path, listener: Listener) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 5)))
    runner = make(sql=HOTTEST.replace("max(heat)", "raise_error('too hot')"))
    with pytest.raises(PipelineError, match="The view hottest could not be computed"):
        runner.run_once()
    until(lambda: ("terminated", f"{runner.files.name}.hottest") in listener.heard)
    assert "too hot" in listener.errors[-1]
