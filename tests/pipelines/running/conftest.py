"""A pipeline folder, and a runner for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.definitions.files import BOOTSTRAP, read_pipeline
from barnabas.pipelines.running.runner import Runner
from tests.pipelines.running.measures import HOTTEST, MEASURES, SPEC, MakeRunner


@pytest.fixture
def make(tmp_path: Path, spark: SparkSession) -> Iterator[MakeRunner]:
    """Write the folder of a pipeline and prepare a runner for it."""

    def write(
        settings: str = "",
        python: str = MEASURES,
        sql: str = HOTTEST,
        bootstrap: str = "127.0.0.1:9092",
        **options: Any,
    ) -> Runner:
        (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(name=f"t{tmp_path.name}", folder=tmp_path))
        (tmp_path / "barnabas.yml").write_text(settings)
        (tmp_path / "transformations").mkdir(exist_ok=True)
        (tmp_path / "transformations" / "measures.py").write_text(python)
        (tmp_path / "transformations" / "hottest.sql").write_text(sql)
        (tmp_path / "incoming").mkdir(exist_ok=True)
        runner = Runner(read_pipeline(tmp_path, {BOOTSTRAP: bootstrap}), spark, **options)
        made.append(runner)
        runner.prepare()
        return runner

    made: list[Runner] = []
    yield write
    for runner in made:
        runner.close()
