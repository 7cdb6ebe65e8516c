"""YARN: the lines of the documentation in client and in cluster mode, and a lost driver (`make spark-clusters`)."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.pipelines.packing import FOLDER, write_program
from barnabas.testing import EmbeddedBroker
from tests.spark.test_standalone import FLOW, not_needed, pipeline_in
from tests.support.spark.jars import requires_yarn
from tests.support.spark.page import SPARK_HOME, pasted, run_pasted
from tests.support.spark.reading import produce
from tests.support.spark.yarn import Yarn
from tests.support.topics import open_transactions, read_committed
from tests.support.waiting import until

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1200), requires_yarn]

SECONDS = 800.0
DRIVER = {
    "grpcio",
    "grpcio-status",
    "googleapis-common-protos",
    "protobuf",
}  # of a driver that runs on the cluster
VALUES = [b"%d" % number for number in range(300)]
SETTINGS = {
    "spark.driver.memory": "600m",
    "spark.executor.memory": "600m",
    "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
    "spark.yarn.maxAppAttempts": "2",
}
SITE = "/etc/hadoop/conf"
LOOPBACK = "0100007F"  # 127.0.0.1 in /proc/net/tcp, with zeros before it in tcp6
HELD = """
    import os
    import time

    held = udf(lambda value: _wait(value), "binary")

    def _wait(value):
        while os.path.exists("{folder}/hold"):
            open("{folder}/held", "w").close()
            time.sleep(0.05)
        return value
"""


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with Yarn(tmp_path_factory.mktemp("yarn")) as running:
        yield running


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.mark.parametrize("mode", ["cluster", "client"])
def test_the_lines_of_the_documentation_run_a_packed_pipeline(
    yarn: Yarn, broker: EmbeddedBroker, tmp_path: Path, mode: str
) -> None:
    source, target = broker.create_topic(partitions=2), broker.create_topic(partitions=2)
    produce(broker.bootstrap_servers, source, VALUES)
    pipeline_in(tmp_path / "clicks", broker.bootstrap_servers, source, target)
    _run(yarn, tmp_path, mode)
    found = read_committed(broker.bootstrap_servers, target)
    assert sorted(message.value() for message in found) == sorted(VALUES)
    executables = {(message.key() or b"").decode() for message in found}
    assert all(f"/{FOLDER}/bin/python" in name and str(yarn.folder) in name for name in executables), (
        executables
    )


def test_a_driver_that_was_killed_is_started_again_and_each_row_is_written_once(
    yarn: Yarn, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    source, target = broker.create_topic(partitions=2), broker.create_topic(partitions=2)
    for partition in (0, 1):
        produce(broker.bootstrap_servers, source, VALUES[partition::2], partition=partition)
    flow = FLOW.replace("    executable =", HELD.format(folder=tmp_path) + "    executable =")
    flow = flow.replace('select("value"', 'select(held("value").alias("value")')
    pipeline_in(tmp_path / "clicks", broker.bootstrap_servers, source, target, flow)
    (tmp_path / "hold").touch()
    killed: list[int] = []
    addresses: set[str] = set()

    def kill_driver() -> None:
        until((tmp_path / "held").exists, "no task is held", SECONDS)
        addresses.update(yarn.open_addresses())
        [driver] = yarn.drivers()
        os.kill(driver, signal.SIGKILL)
        (tmp_path / "hold").unlink()
        killed.append(driver)

    killer = threading.Thread(target=kill_driver)
    killer.start()
    _run_installed(yarn, tmp_path)
    killer.join()
    assert len(killed) == 1
    assert all(address.endswith(LOOPBACK) for address in addresses), addresses
    found = read_committed(broker.bootstrap_servers, target)
    assert sorted(message.value() for message in found) == sorted(VALUES)
    assert open_transactions(broker.bootstrap_servers, target) == []


def _run_installed(yarn: Yarn, folder: Path) -> None:
    """In cluster mode without an archive: every node has Barnabas."""
    write_program(folder / "env.tar.gz")
    archive = "--archives env.tar.gz#environment"
    replaced = {
        archive: "",
        f"./{FOLDER}/bin/python": sys.executable,
        f"{FOLDER}/pipeline": str(folder / "clicks"),
    }
    _submit(yarn, folder, pasted("YARN", 1, replaced))


def _run(yarn: Yarn, folder: Path, mode: str) -> None:
    left_out = shlex.join(word for name in not_needed() - DRIVER for word in ("--without", name))
    lines = pasted("Ship the environment", 0, {"spark://HOST:7077": f"yarn {left_out}"})
    done = run_pasted(lines, folder, SECONDS)
    assert done.returncode == 0, done.stderr[-3000:]
    if mode == "client":
        _submit(yarn, folder, pasted("YARN", 0, {SITE: str(yarn.configuration), "/path/to/venv": sys.prefix}))
    else:
        _submit(yarn, folder, pasted("YARN", 1, {}))


def _submit(yarn: Yarn, folder: Path, lines: str) -> None:
    environment = {"HADOOP_CONF_DIR": str(yarn.configuration)}
    settings = {**SETTINGS, "spark.yarn.stagingDir": f"file://{folder}/staging"}
    done = run_pasted(lines, folder, SECONDS, environment, settings)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:] + yarn.container_logs()[-8000:]
