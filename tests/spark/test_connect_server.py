"""Source, sink and pipelines with a Spark Connect server, whose clients have no JVM (`make spark-clusters`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.pipelines.definitions import copy_template
from barnabas.testing import EmbeddedBroker
from tests.support.programs import PROJECT_ROOT, free_port
from tests.support.spark.reading import produce
from tests.support.spark.standalone import SPARK_HOME
from tests.support.topics import read_committed
from tests.support.waiting import still_running, until

pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SECONDS = 400.0
COPY = """
import sys
from barnabas.spark import session_builder

bootstrap, source, target, checkpoint = sys.argv[1:]
spark = session_builder("connect").getOrCreate()
broker = {"kafka.bootstrap.servers": bootstrap}
frame = spark.read.format("barnabas").options(**broker).option("subscribe", source).load()
print("COUNT", frame.count(), type(spark).__module__, spark.conf.get("spark.sql.session.timeZone"))
stream = spark.readStream.format("barnabas").options(**broker).option("startingOffsets", "earliest")
writer = stream.option("subscribe", source).load().select("key", "value").writeStream.format("barnabas")
writer = writer.options(**broker).option("topic", target).option("checkpointLocation", checkpoint)
for attempt in range(10):
    try:
        writer.trigger(availableNow=True).start().awaitTermination()
        break
    except Exception as error:
        if "connect back" not in str(error):  # a busy machine started Spark's Python too late
            raise
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("connect"), free_port()
    command = [f"{SPARK_HOME}/bin/spark-submit", "--driver-memory", "700m", "--master", "local[2]"]
    command += ["--class", SERVER, "--conf", f"spark.connect.grpc.binding.port={port}"]
    command += ["--conf", "spark.connect.grpc.binding.address=127.0.0.1", "--conf", "spark.ui.enabled=false"]
    command += ["--conf", f"spark.sql.warehouse.dir={folder}/warehouse", "spark-internal"]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    environment |= {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
    path = folder / "log"
    with path.open("wb") as log:
        running = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        until(
            lambda: "Spark Connect server started at" in path.read_text(),
            lambda: path.read_text()[-3000:],
            SECONDS,
            meanwhile=still_running(running, lambda: path.read_text()[-3000:]),
        )
        yield f"sc://127.0.0.1:{port}"
    finally:
        running.kill()
        running.wait()


def test_source_and_sink_work_without_a_jvm(server: str, tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        source, target = broker.create_topic(partitions=2), broker.create_topic(partitions=2)
        values = [b"%d" % number for number in range(200)]
        produce(broker.bootstrap_servers, source, values)
        arguments = [broker.bootstrap_servers, source, target, str(tmp_path / "checkpoint")]
        done = _run(server, ["-c", COPY, *arguments])
        assert done.returncode == 0, _without_stacks(done.stderr)
        assert "COUNT 200 pyspark.sql.connect.session UTC" in done.stdout
        found = [message.value() for message in read_committed(broker.bootstrap_servers, target)]
        assert sorted(found) == sorted(values)


def test_barnabas_runner_is_refused_in_one_sentence(server: str, tmp_path: Path) -> None:
    copy_template("activity", tmp_path / "clicks")
    with EmbeddedBroker() as broker:
        arguments = ["pipeline", "run", str(tmp_path / "clicks"), "-b", broker.bootstrap_servers]
        done = _run(server, ["-m", "barnabas", *arguments])
    assert done.returncode == 1
    assert f"Spark Connect ({server}) has none: run the pipeline with Spark's runner (--spark)" in done.stderr


def _without_stacks(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("at "))[-4000:]


def _run(server: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SPARK_REMOTE": server}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command,
        env=environment,
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
