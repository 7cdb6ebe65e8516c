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
from tests.spark.test_standalone import pipeline_in
from tests.support.programs import free_port
from tests.support.spark.page import SPARK_HOME, pasted, run_pasted
from tests.support.spark.reading import produce
from tests.support.topics import read_committed
from tests.support.waiting import still_running, until

pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SECONDS = 400.0
VALUES = [b"%d" % number for number in range(300)]
COPY = """
from barnabas.spark import session_builder

bootstrap, source, target, checkpoint = {arguments!r}
spark = session_builder("connect").getOrCreate()
broker = {{"kafka.bootstrap.servers": bootstrap}}
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


def test_the_lines_of_the_documentation_run_a_job_without_a_jvm(server: str, tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        source, target = broker.create_topic(partitions=2), broker.create_topic(partitions=2)
        produce(broker.bootstrap_servers, source, VALUES)
        arguments = (broker.bootstrap_servers, source, target, str(tmp_path / "checkpoint"))
        (tmp_path / "my_job.py").write_text(COPY.format(arguments=arguments))
        done = run_pasted(pasted("Spark Connect", 0, {"sc://HOST:15002": server}), tmp_path, SECONDS)
        assert done.returncode == 0, _without_stacks(done.stderr)
        assert "COUNT 300 pyspark.sql.connect.session UTC" in done.stdout
        found = [message.value() for message in read_committed(broker.bootstrap_servers, target)]
        assert sorted(found) == sorted(VALUES)


def test_the_lines_of_the_documentation_run_a_pipeline_without_a_jvm(server: str, tmp_path: Path) -> None:
    """Again for later records: each is written once."""
    with EmbeddedBroker() as broker:
        source, target = broker.create_topic(partitions=2), broker.create_topic(partitions=2)
        pipeline_in(tmp_path / "clicks", broker.bootstrap_servers, source, target)
        lines = pasted("Spark Connect", 1, {"sc://HOST:15002": server})
        for part in (0, 1):
            produce(broker.bootstrap_servers, source, VALUES[part::2])
            done = run_pasted(lines, tmp_path, SECONDS)
            assert done.returncode == 0, done.stdout[-2000:] + _without_stacks(done.stderr)
        found = [message.value() for message in read_committed(broker.bootstrap_servers, target)]
        assert sorted(found) == sorted(VALUES)


def test_features_that_need_a_jvm_are_rejected_by_name(server: str, tmp_path: Path) -> None:
    copy_template("activity", tmp_path / "clicks")
    done = run_pasted(pasted("Spark Connect", 1, {"sc://HOST:15002": server}), tmp_path, SECONDS)
    assert done.returncode == 1
    message = f"`quality`, `dead_letters` and the mode `update` need a driver with a JVM, and Spark Connect ({server}) "
    assert f"{message}has none" in done.stderr


def _without_stacks(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("at "))[-4000:]
