"""A pipeline of files with measures, for tests of the runner."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas.pipelines.running.runner import Runner

SPEC = """
name: {name}
storage: file://{folder}/storage
configuration: {{measures.path: "{folder}/incoming"}}
libraries:
  - glob: {{include: transformations/**}}
"""
MEASURES = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.active()

@dp.temporary_view
def measures():
    return spark.readStream.schema("at BIGINT, machine STRING, heat DOUBLE").json(spark.conf.get("measures.path"))

@dp.table
def warm():
    return spark.readStream.table("measures").withColumn("time", F.timestamp_seconds("at")).where("heat > 0")
"""
HOTTEST = """
CREATE MATERIALIZED VIEW hottest AS SELECT machine, max(heat) AS heat FROM warm GROUP BY machine;
"""
MakeRunner = Callable[..., Runner]


def rows(*measures: tuple[int, str | None, float]) -> list[dict[str, Any]]:
    return [{"at": at, "machine": machine, "heat": heat} for at, machine, heat in measures]


def add_file(folder: Path, name: str, content: list[dict[str, Any]]) -> None:
    (folder / "incoming").mkdir(exist_ok=True)
    (folder / "incoming" / name).write_text("\n".join(map(json.dumps, content)))


def heat(runner: Runner) -> dict[str, float]:
    return {row["machine"]: row["heat"] for row in runner.session.table("hottest").collect()}
