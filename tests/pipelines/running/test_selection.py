"""Runs of selected flows, from the beginning or over a range, on files and topics."""

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.pipelines.running.backfill import Backfill
from barnabas.pipelines.running.runner import Runner
from barnabas.pipelines.running.selection import NOTE, FlowSelection, PipelineStorage
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.pipelines.running.measures import MEASURES, MakeRunner, add_file, heat, rows
from tests.support.spark.workbench import read_topic

CHAIN = f"""{MEASURES}
@dp.table(table_properties={{"pipelines.reset.allowed": "false"}})
def kept():
    return spark.readStream.table("measures")

@dp.table
def second():
    return spark.readStream.table("warm")
"""


def full(*names: str) -> FlowSelection:
    return FlowSelection(full=frozenset(names))


def counts(runner: Runner, *tables: str) -> list[int]:
    for name in tables:
        runner.session.catalog.refreshTable(name)
    return [runner.session.table(name).count() for name in tables]


def test_flows_are_computed_again_together_with_those_that_read_their_tables(
    make: MakeRunner, tmp_path: Path
) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 5), (2, "b", 7)))
    make(python=CHAIN).run_once()
    changed = CHAIN.replace("heat > 0", "heat > 6")
    with pytest.raises(PipelineError, match=r"second streams from warm .* add `--full-refresh second`"):
        make(python=changed, selection=full("warm"))
    with pytest.raises(PipelineError, match=r"kept has the property pipelines.reset.allowed=false"):
        make(python=changed, selection=full("kept"))
    with pytest.raises(PipelineError, match="--full-refresh names wrm, which is not a flow or a table"):
        make(python=changed, selection=full("wrm"))
    runner = make(python=changed, selection=full("warm", "second"))
    assert [remark.split(";")[0] for remark in runner.remarks] == [
        "second reads from the beginning",
        "warm reads from the beginning",
    ]
    add_file(tmp_path, "2.json", rows((3, "a", 9)))
    runner.run_once()
    assert counts(runner, "warm", "second", "kept") == [2, 2, 2]  # `kept` was not run
    last = make(python=changed)
    last.run_once()
    assert counts(last, "warm", "second", "kept") == [2, 2, 3]
    assert heat(last) == {"a": 9, "b": 7}


def test_only_some_flows_run(make: MakeRunner, tmp_path: Path) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 5)))
    runner = make(python=CHAIN, selection=FlowSelection(refresh=frozenset({"warm"})))
    assert (sorted(runner.flows), runner.remarks) == (["warm"], [])
    runner.run_once()
    assert counts(runner, "warm", "second") == [1, 0]


def test_a_refresh_that_was_killed_is_finished_by_the_next_run(
    make: MakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the note and the first deletion: any later moment is the same for the next run."""
    add_file(tmp_path, "1.json", rows((1, "a", 5)))
    make(python=CHAIN).run_once()
    runner = make(python=CHAIN, selection=full("warm", "second"))
    with monkeypatch.context() as patch:
        patch.setattr(PipelineStorage, "_finish", lambda _: None)
        runner._take_state()
    assert (tmp_path / "storage/barnabas" / NOTE).exists()
    (tmp_path / "incoming/1.json").unlink()
    add_file(tmp_path, "2.json", rows((1, "b", 6)))
    last = make(python=CHAIN)
    last.run_once()
    assert heat(last) == {"b": 6}
    assert not (tmp_path / "storage/barnabas" / NOTE).exists()


def test_checkpoints_of_another_pipeline_are_refused(make: MakeRunner, tmp_path: Path) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 5)))
    make().run_once()
    (tmp_path / "storage/barnabas/pipeline.json").write_text('{"pipeline": "other"}')
    with pytest.raises(PipelineError, match="are those of the pipeline other, not of t"):
        make()


TOPICS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
spark = SparkSession.active()
broker = {"kafka.bootstrap.servers": spark.conf.get("barnabas.bootstrap.servers")}

@dp.temporary_view
def read():
    stream = spark.readStream.format("barnabas").options(**broker).option("subscribe", "SOURCE")
    return stream.option("startingOffsets", "earliest").load().selectExpr("CAST(value AS STRING) value", "offset")

@dp.table
def kept():
    return spark.readStream.table("read")

@dp.table
def counted():
    return spark.readStream.table("read").groupBy("value").count()

dp.create_sink("out", "barnabas", {**broker, "topic": "TARGET"})

@dp.append_flow(target="out")
def send():
    return spark.readStream.table("read").select("value")
"""
UPDATE = "flows: {counted: {mode: update}}\n"


def sent(broker: EmbeddedBroker, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def values_in(broker: EmbeddedBroker, topic: str) -> list[str]:
    return [(record.value or b"").decode() for record in read_topic(broker.bootstrap_servers, topic)]


def test_one_flow_is_backfilled_and_computed_again(
    make: MakeRunner, tmp_path: Path, broker: EmbeddedBroker
) -> None:
    source, target = broker.create_topic(), broker.create_topic()
    python = TOPICS.replace("SOURCE", source).replace("TARGET", target)
    plain = python.replace('.groupBy("value").count()', "")

    def made(**options: object) -> Runner:
        return make(
            python=options.pop("python", plain), sql="", bootstrap=broker.bootstrap_servers, **options
        )

    def backfill(flow: str, start: str, end: str | None = None) -> Runner:
        return made(backfill=Backfill.parse(flow, start, end))

    sent(broker, source, "a", "b", "c")
    with pytest.raises(PipelineError, match="kept has not run yet"):
        backfill("kept", "earliest")
    made().run_once()
    sent(broker, source, "d")

    offsets = f'{{"{source}": {{"0": 1}}}}'
    runner = backfill("kept", offsets)
    assert runner.remarks == [f"kept reads 2 offsets again and adds their results: {source}-0 from 1 to 3."]
    assert len(runner.plan.queries) == 1
    for _ in range(2):  # a repeated backfill adds nothing
        backfill("kept", offsets).run_once()
    assert values_in(broker, target) == ["a", "b", "c"]
    backfill("send", "earliest", f'{{"{source}": {{"0": 1}}}}').run_once()
    assert values_in(broker, target) == ["a", "b", "c", "a"]
    assert "no records of this range" in backfill("send", "2099-01-01").remarks[0]

    last = made()
    last.run_once()
    kept = sorted(row.value for row in last.session.table("kept").collect())
    assert kept == ["a", "b", "b", "c", "c", "d"]
    assert values_in(broker, target) == ["a", "b", "c", "a", "d"]

    made(selection=full("send")).run_once()
    assert values_in(broker, target) == ["a", "b", "c", "a", "d", "a", "b", "c", "d"]

    with pytest.raises(PipelineError, match=r"counted has a state \(Aggregate\)"):
        made(python=python, settings=UPDATE, backfill=Backfill.parse("counted", "earliest", None))


def test_error_of_the_data_source_is_the_first_line(make: MakeRunner, broker: EmbeddedBroker) -> None:
    source, target = broker.create_topic(), broker.create_topic()
    python = TOPICS.replace("SOURCE", source).replace("TARGET", target).split("dp.create_sink")[0]
    python = python.replace('.groupBy("value").count()', "")
    sent(broker, source, "a")
    make(python=python, sql="", bootstrap=broker.bootstrap_servers).run_once()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([source])[source].result(30)
    admin.create_topics([NewTopic(source, 1)])[source].result(30)
    sent(broker, source, "b")
    with pytest.raises(PipelineError) as caught:
        make(python=python, sql="", bootstrap=broker.bootstrap_servers).run_once()
    assert f"has failed: topic {source} was deleted and recreated." in caught.value.sentence
    assert caught.value.sentence.endswith("after a restart it continues from here.")
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    ("flow", "start", "sentence"),
    [
        ("hottest", "earliest", "hottest is a materialized view"),
        ("warm", "earliest", "warm does not only read topics"),
        ("warn", "earliest", "The backfill names warn, which is not a flow"),
        ("warm", "yesterday", "Not a valid time or offsets: 'yesterday'"),
        ("warm", '{"orders": 1}', "Not a valid time or offsets"),
    ],
)
def test_impossible_backfills_are_rejected(make: MakeRunner, flow: str, start: str, sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence):
        make(backfill=Backfill.parse(flow, start, None))
