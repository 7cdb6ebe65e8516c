"""YARN: a packed pipeline in client and in cluster mode (`make spark-clusters`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.pipelines.packing import FOLDER, PIPELINE, NodePython, default_python, pack, write_program
from barnabas.testing import EmbeddedBroker
from tests.spark.test_standalone import not_needed, pipeline_in
from tests.support.spark.jars import requires_yarn
from tests.support.spark.reading import produce
from tests.support.spark.yarn import SPARK_HOME, Yarn
from tests.support.topics import read_committed

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1200), requires_yarn]

SECONDS = 800.0
DRIVER = {
    "grpcio",
    "grpcio-status",
    "googleapis-common-protos",
    "protobuf",
}  # of a driver that runs on the cluster
VALUES = [b"%d" % number for number in range(300)]


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with Yarn(tmp_path_factory.mktemp("yarn")) as running:
        yield running


@pytest.mark.parametrize("mode", ["cluster", "client"])
def test_a_packed_pipeline_runs(yarn: Yarn, tmp_path: Path, mode: str) -> None:
    with EmbeddedBroker() as broker:
        source, target = broker.create_topic(partitions=2), broker.create_topic(partitions=2)
        produce(broker.bootstrap_servers, source, VALUES)
        folder = pipeline_in(tmp_path / "shipped", broker.bootstrap_servers, source, target)
        archive = tmp_path / "env.tar.gz"
        pack(archive, NodePython(default_python()), folder, without=not_needed() - DRIVER, level=0)
        done = _submit(
            yarn, tmp_path, archive, mode, f"{FOLDER}/{PIPELINE}" if mode == "cluster" else str(folder)
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:] + yarn.container_logs()[-8000:]
        found = read_committed(broker.bootstrap_servers, target)
    assert sorted(message.value() for message in found) == sorted(VALUES)
    executables = {(message.key() or b"").decode() for message in found}
    assert all(f"/{FOLDER}/bin/python" in name and str(yarn.folder) in name for name in executables), (
        executables
    )


def _submit(
    yarn: Yarn, folder: Path, archive: Path, mode: str, pipeline: str
) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "yarn", "--deploy-mode", mode]
    command += ["--driver-memory", "600m", "--executor-memory", "600m", "--archives", f"{archive}#{FOLDER}"]
    settings = {
        "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
        "spark.yarn.stagingDir": f"file://{folder}/staging",
        "spark.yarn.maxAppAttempts": "1",
    }
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))
    }
    environment |= {
        "HADOOP_CONF_DIR": str(yarn.configuration),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(SPARK_HOME),
    }
    python = f"./{FOLDER}/bin/python"
    if mode == "cluster":
        settings["spark.yarn.appMasterEnv.PYSPARK_PYTHON"] = python
    else:
        (folder / FOLDER).symlink_to(sys.prefix)
        environment["PYSPARK_PYTHON"] = python
    command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return subprocess.run(
        [*command, str(write_program(archive)), "pipeline", "run", pipeline],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
