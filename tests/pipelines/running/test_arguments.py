"""Arguments of Spark's decorators and SQL are applied, or rejected before anything is written."""

import json
from pathlib import Path

import pytest

from barnabas.pipelines.running.runner import Runner
from barnabas.pipelines.running.selection import FlowSelection
from barnabas.spark.errors import PipelineError
from tests.pipelines.running.measures import MEASURES, MakeRunner, add_file, heat, rows
from tests.support.spark.jars import iceberg_jars

READ = (
    'spark.readStream.schema("at BIGINT, machine STRING, heat DOUBLE").json(spark.conf.get("measures.path"))'
)
HEAD = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.active()
"""
FULL = f"""{HEAD}
@dp.table(
    name="warm",
    comment="What isn't cold",
    schema="machine STRING COMMENT 'its name', heat DOUBLE, unit STRING, day DATE",
    table_properties={{"team": "o'neil"}},
    partition_cols=["day"],
    spark_conf={{"spark.sql.shuffle.partitions": "3", "measures.least": "5"}},
)
def of_any_name():
    least = spark.conf.get("measures.least")
    return {READ}.where(f"heat > {{least}}").select("heat", "machine", F.lit(None).cast("DATE").alias("day"))

@dp.materialized_view(comment="by machine", schema="machine STRING, heat DOUBLE, note STRING",
                      spark_conf={{"spark.sql.ansi.enabled": "false"}})
def hottest():
    return spark.read.table("warm").groupBy("machine").agg((F.max("heat") / 0).alias("heat"))
"""
SQL = """
CREATE STREAMING TABLE warm (machine STRING, heat DOUBLE COMMENT 'degrees', unit STRING)
    PARTITIONED BY (machine) COMMENT 'warm ones' TBLPROPERTIES ('team' = 'me')
    AS SELECT machine, heat FROM STREAM measures;
CREATE MATERIALIZED VIEW hottest COMMENT 'hot' AS SELECT machine, max(heat) AS heat FROM warm GROUP BY machine;
"""
TWO = f"""{HEAD}
dp.create_streaming_table("warm")

@dp.append_flow(target="warm", name="left")
def left():
    return {READ}.where("machine = 'a'").drop("at")

@dp.append_flow(target="warm", name="right")
def right():
    return {READ}.where("machine <> 'a'")
"""
SEND = f"""
@dp.append_flow(target="out")
def send():
    return {READ}
"""


def described(runner: Runner) -> tuple[dict[str, str], dict[str, str]]:
    """Types and column comments of the table `warm` in Spark."""
    found = {row[0]: row for row in runner.session.sql("DESCRIBE EXTENDED warm").collect()}
    return {name: row[1] for name, row in found.items()}, {name: row[2] for name, row in found.items()}


def test_a_table_has_the_arguments_of_its_decorator(make: MakeRunner, tmp_path: Path) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 5), (2, "b", 7)))
    runner = make(python=FULL, sql="")
    runner.run_once()
    output, comments = described(runner)
    assert output["Comment"] == "What isn't cold"
    assert "team=o'neil" in output["Table Properties"]
    assert comments["machine"] == "its name"
    assert runner.session.table("warm").collect() == [("b", 7.0, None, None)]
    assert runner.session.table("hottest").collect() == [("b", None, None)]  # 7 / 0 without ANSI
    offsets = (tmp_path / "storage/barnabas/checkpoints/warm/offsets/0").read_text().splitlines()
    assert json.loads(offsets[1])["conf"]["spark.sql.shuffle.partitions"] == "3"
    assert runner.session.conf.get("spark.sql.ansi.enabled") == "true"
    assert runner.session.conf.get("measures.least", None) is None


def test_a_table_has_the_clauses_of_its_sql(make: MakeRunner, tmp_path: Path) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 5)))
    runner = make(sql=SQL, python=MEASURES[: MEASURES.index("@dp.table")])
    runner.run_once()
    output, comments = described(runner)
    assert (output["Comment"], comments["heat"], output["unit"]) == ("warm ones", "degrees", "string")
    assert "team=me" in output["Table Properties"]
    assert (tmp_path / "storage/barnabas/tables/warm/machine=a").is_dir()


@pytest.mark.skipif(not iceberg_jars(), reason="Iceberg's jars are not there")
def test_an_iceberg_table_has_comment_and_properties(make: MakeRunner, tmp_path: Path) -> None:
    add_file(tmp_path, "1.json", rows((1, "a", 5)))
    lake = f"lake: {{warm: {{path: 'file://{tmp_path}/ice', format: iceberg, hours: time, properties: {{a: b}}}}}}"
    wanted = '@dp.table(comment="warm ones", table_properties={"a": "c", "team": "me"})'
    make(lake, python=MEASURES.replace("@dp.table", wanted), sql="").run_once()
    newest = max((tmp_path / "ice/metadata").glob("*.metadata.json"))
    found = json.loads(newest.read_text())["properties"]
    assert (found["comment"], found["team"], found["a"]) == ("warm ones", "me", "b")


def test_several_flows_fill_one_table(make: MakeRunner, tmp_path: Path) -> None:
    """Spark's file sink, which numbers batches by folder, lost those of the second flow."""
    add_file(tmp_path, "1.json", rows((1, "a", 5), (2, "b", 7)))
    make(python=TWO).run_once()
    add_file(tmp_path, "2.json", rows((3, "a", 9), (4, "c", 1)))
    runner = make(python=TWO)
    runner.run_once()
    assert heat(runner) == {"a": 9, "b": 7, "c": 1}
    assert sorted(runner.session.table("warm").select("at", "machine").collect(), key=str) == [
        (2, "b"),
        (4, "c"),
        (None, "a"),
        (None, "a"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('name="warm"', 'name="warm", cluster_by=["machine"]', "warm is clustered by machine"),
        ("unit STRING", "unit STRING NOT NULL", r"The schema of warm has NOT NULL columns \(unit\)"),
        ("unit STRING", "unit STRIN", "The schema of warm is not valid"),
        ("heat DOUBLE, unit", "heat INT, unit", r"warm does not fit .* \(heat is double, not int\)"),
        ("heat DOUBLE, unit", "unit", r"warm has columns that the schema of warm lacks \(heat\)"),
        ('["day"]', '["days"]', "warm is partitioned by days, which warm does not have"),
        ('{"team"', '{"owner"', "The table warm cannot be created"),
        ("spark.sql.shuffle.partitions", "spark.executor.memory", "which is fixed when Spark starts"),
    ],
)
def test_an_argument_that_cannot_be_honoured_is_rejected(
    make: MakeRunner, tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    assert old in FULL
    with pytest.raises(PipelineError, match=sentence):
        make(python=FULL.replace(old, new), sql="")
    assert not (tmp_path / "storage").exists()


@pytest.mark.parametrize(
    ("added", "settings", "sentence"),
    [
        (TWO.replace('"warm")', '"warm", format="json")', 1), "", "which needs the format parquet, not json"),
        (TWO.replace('.drop("at")', '.withColumn("heat", F.lit("x"))'), "", "different types of heat"),
        (
            TWO + 'dp.create_sink("out", "noop", {"checkpointLocation": "/tmp/x"})' + SEND,
            "",
            "The sink out sets checkpointLocation",
        ),
        (
            TWO + 'dp.create_sink("out", "barnabas", {"topic": "t", "sinkId": "x"})' + SEND,
            "flows: {send: {mode: update}}",
            "The sink out sets sinkId, which a flow in `update` mode does not use",
        ),
        (
            f'{TWO}\n@dp.temporary_view(spark_conf={{"a": "b"}})\ndef seen():\n    return {READ}\n',
            "",
            "The temporary view seen has `spark_conf`",
        ),
        (
            f'{TWO}\n@dp.append_flow(target="hottest")\ndef more():\n    return spark.read.table("warm")\n',
            "",
            "hottest is filled by 2 flows",
        ),
    ],
)
def test_incompatible_settings_are_rejected(
    make: MakeRunner, added: str, settings: str, sentence: str
) -> None:
    with pytest.raises(PipelineError, match=sentence):
        make(settings, python=added)


def test_a_table_gains_the_new_columns_of_its_flow(make: MakeRunner, tmp_path: Path) -> None:
    """Other changes are rejected before anything is written."""
    add_file(tmp_path, "1.json", rows((1, "a", 5)))
    make().run_once()
    wider = MEASURES.replace('.where("heat > 0")', '.withColumn("unit", F.lit("C")).where("heat > 0")')
    add_file(tmp_path, "2.json", rows((2, "a", 6)))
    runner = make(python=wider)
    runner.run_once()
    found = runner.session.table("warm").select("heat", "unit").orderBy("heat").collect()
    assert found == [(5.0, None), (6.0, "C")]
    changed = MEASURES.replace('.where("heat > 0")', '.withColumn("heat", F.col("heat").cast("INT"))')
    sentence = r"has other types .*heat is double, not int.*`--full-refresh warm` recomputes it"
    with pytest.raises(PipelineError, match=sentence):
        make(python=changed)
    again = make(python=changed, selection=FlowSelection(full=frozenset({"warm"})))
    again.run_once()
    assert dict(again.session.table("warm").dtypes)["heat"] == "int"
    lake = f"lake: {{warm: {{path: 'file://{tmp_path}/lake', schema_evolution: fail}}}}"
    add_file(tmp_path, "3.json", rows((3, "a", 7)))
    make(lake).run_once()
    with pytest.raises(PipelineError, match=r"lacks columns of the flow that fills it \(unit\)"):
        make(lake, python=wider)
