"""Spark's standalone cluster in client mode: without a packed archive, executors lack Barnabas and its packages."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from barnabas.pipelines.packing import FOLDER, NodePython, default_python, pack, write_program
from barnabas.testing import EmbeddedBroker
from tests.support.spark.page import pasted, run_pasted
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


def test_the_lines_of_the_documentation_run_a_pipeline_on_executors_without_barnabas(
    cluster: StandaloneCluster, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    source, target = broker.create_topic(partitions=2), broker.create_topic(partitions=2)
    values = [b"%d" % number for number in range(RECORDS)]
    for partition in (0, 1):
        produce(broker.bootstrap_servers, source, values[partition::2], partition=partition)
    folder = pipeline_in(tmp_path / "clicks", broker.bootstrap_servers, source, target)
    archive = tmp_path / "env.tar.gz"
    pack(archive, NodePython(default_python()), folder, without=not_needed(), level=0)

    done = submit(cluster, tmp_path)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

    found = read_committed(broker.bootstrap_servers, target)
    assert sorted(message.value() for message in found) == sorted(values)
    executables = {(message.key() or b"").decode() for message in found}
    assert all(f"/{FOLDER}/bin/python" in name and "/worker-" in name for name in executables), executables


@pytest.mark.extended
def test_executors_without_the_archive_are_refused_with_the_command_that_ships_it(
    cluster: StandaloneCluster, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    pipeline_in(tmp_path / "clicks", broker.bootstrap_servers, broker.create_topic(), "target")
    done = submit(cluster, tmp_path, "--archives env.tar.gz#environment ")
    assert done.returncode == 1
    output = done.stdout + done.stderr
    assert "executors cannot run ./environment/bin/python, which does not exist there" in output, output[
        -3000:
    ]
    assert "barnabas pipeline pack" in output


@pytest.mark.extended
def test_executors_with_another_python_that_lacks_barnabas_are_refused_with_that_command(
    cluster: StandaloneCluster, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    pipeline_in(tmp_path / "clicks", broker.bootstrap_servers, broker.create_topic(), "target")
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("bin/python")
        link.type, link.linkname = tarfile.SYMTYPE, default_python()
        archive.addfile(link)
    done = submit(cluster, tmp_path)
    assert done.returncode == 1
    output = done.stdout + done.stderr
    assert "Python on the executors has no module" in output, output[-3000:]
    assert "barnabas pipeline pack" in output


def pipeline_in(folder: Path, bootstrap: str, source: str, target: str, flow: str = FLOW) -> Path:
    (folder / "transformations").mkdir(parents=True)
    spec = SPEC.format(folder=folder, bootstrap=bootstrap, source=source, target=target)
    (folder / "spark-pipeline.yml").write_text(textwrap.dedent(spec))
    (folder / "transformations" / "flow.py").write_text(textwrap.dedent(flow))
    return folder


def submit(cluster: StandaloneCluster, folder: Path, left_out: str = "") -> subprocess.CompletedProcess[str]:
    write_program(folder / "env.tar.gz")
    replaced = {"spark://HOST:7077": cluster.url, "/path/to/venv": sys.prefix}
    if left_out:
        replaced[left_out] = ""
    settings = {"spark.driver.memory": "600m", "spark.executor.memory": "600m"}
    return run_pasted(pasted("Standalone", 0, replaced), folder, 500, settings=settings)


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
