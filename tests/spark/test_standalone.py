"""Spark's standalone cluster in client mode: without a packed archive, executors lack Barnabas and its packages."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from barnabas.pipelines.packing import FOLDER, NodePython, default_python, pack, write_program
from barnabas.testing import EmbeddedBroker
from tests.support.spark.reading import produce
from tests.support.spark.standalone import StandaloneCluster
from tests.support.topics import read_committed

pytestmark = pytest.mark.timeout(600)

RECORDS = 500
NOT_NEEDED = {"grpcio", "grpcio-status"}  # for Spark Connect
SPEC = """
    name: shipped
    storage: file://{folder}/storage
    configuration: {{barnabas.bootstrap.servers: "{bootstrap}", shipped.source: {source}, shipped.target: {target}}}
    libraries: [{{glob: {{include: transformations/**}}}}]
"""
FLOW = """
    import sys
    from pyspark import pipelines as dp
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import udf
    from barnabas.pipelines.connection import broker_options

    spark = SparkSession.active()
    options = broker_options(spark)
    executable = udf(lambda value: sys.executable, "string")

    dp.create_sink("out", "barnabas", {**options, "topic": spark.conf.get("shipped.target")})

    @dp.append_flow(target="out")
    def copied():
        topic = spark.conf.get("shipped.source")
        read = spark.readStream.format("barnabas").options(**options)
        read = read.option("subscribe", topic).option("startingOffsets", "earliest").load()
        return read.select("value", executable("value").alias("key"))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def test_a_packed_environment_runs_a_pipeline_on_executors_without_barnabas(
    cluster: StandaloneCluster, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    source, target = broker.create_topic(partitions=2), broker.create_topic(partitions=2)
    values = [b"%d" % number for number in range(RECORDS)]
    for partition in (0, 1):
        produce(broker.bootstrap_servers, source, values[partition::2], partition=partition)
    folder = pipeline_in(tmp_path / "shipped", broker.bootstrap_servers, source, target)
    archive = tmp_path / "env.tar.gz"
    pack(archive, NodePython(default_python()), folder, without=not_needed(), level=0)

    done = submit(cluster, tmp_path, archive, ["pipeline", "run", str(folder)])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

    found = read_committed(broker.bootstrap_servers, target)
    assert sorted(message.value() for message in found) == sorted(values)
    executables = {(message.key() or b"").decode() for message in found}
    assert all(f"/{FOLDER}/bin/python" in name and "/worker-" in name for name in executables), executables


@pytest.mark.extended
def test_executors_without_the_archive_are_refused_with_the_command_that_ships_it(
    cluster: StandaloneCluster, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    folder = pipeline_in(tmp_path / "shipped", broker.bootstrap_servers, broker.create_topic(), "target")
    done = submit(cluster, tmp_path, None, ["pipeline", "run", str(folder)])
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "executors cannot run ./environment/bin/python, which does not exist there" in said, said[-3000:]
    assert "barnabas pipeline pack" in said


def pipeline_in(folder: Path, bootstrap: str, source: str, target: str) -> Path:
    (folder / "transformations").mkdir(parents=True)
    spec = SPEC.format(folder=folder, bootstrap=bootstrap, source=source, target=target)
    (folder / "spark-pipeline.yml").write_text(textwrap.dedent(spec))
    (folder / "transformations" / "flow.py").write_text(textwrap.dedent(FLOW))
    return folder


def submit(
    cluster: StandaloneCluster, folder: Path, archive: Path | None, arguments: list[str]
) -> subprocess.CompletedProcess[str]:
    """As `barnabas pipeline pack` says: the driver's Python has the same relative path as that of the executors."""
    (folder / FOLDER).symlink_to(sys.prefix)
    program = write_program(folder / "env.tar.gz")
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", cluster.url]
    command += ["--driver-memory", "600m", "--executor-memory", "600m"]
    if archive is not None:
        command += ["--archives", f"{archive}#{FOLDER}"]
    left_out = ("SPARK_HOME", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment |= {"PYSPARK_PYTHON": f"./{FOLDER}/bin/python", "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [*command, str(program), *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


def not_needed() -> set[str]:
    """Packages of the tests that a pipeline does not import: the archive takes a third of the time."""
    needed = {"barnabas"}
    _add_requirements("barnabas", {"spark"}, needed)
    return {one.name for one in distributions() if one.name.lower().replace("_", "-") not in needed}


def _add_requirements(name: str, extras: set[str], found: set[str]) -> None:
    for text in distribution(name).requires or ():
        wanted = Requirement(text)
        key = wanted.name.lower().replace("_", "-")
        applies = wanted.marker is None or any(
            wanted.marker.evaluate({"extra": extra}) for extra in extras | {""}
        )
        if not applies or key in found | NOT_NEEDED:
            continue
        found.add(key)
        try:
            _add_requirements(key, set(wanted.extras), found)
        except PackageNotFoundError:
            found.discard(key)
