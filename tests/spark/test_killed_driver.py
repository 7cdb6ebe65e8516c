"""kill -9 of a streaming query's driver: the next one continues from its checkpoint, and every record counts once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.testing import EmbeddedBroker
from tests.spark.endless_stream import RECORDS_PER_BATCH, copying
from tests.support.programs import PROJECT_ROOT
from tests.support.spark.reading import DEADLINE, produce, run_to_end
from tests.support.waiting import still_running, until

# The tests of the library kill a process that runs all templates; this one does it to the bare source.
pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]

RECORDS = 2000
BATCHES_BEFORE_THE_END = 3


def test_killed_stream_continues_without_loss_or_duplicates(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = broker.create_topic(partitions=2)
    values = [b"%05d" % index for index in range(RECORDS)]
    for partition in (0, 1):
        produce(broker.bootstrap_servers, topic, values[partition::2], partition=partition)

    kill_in_mid_stream(broker.bootstrap_servers, topic, tmp_path)
    copied = committed_batches(tmp_path) * RECORDS_PER_BATCH
    assert copied < RECORDS, "the stream was done before it was killed"
    # The rest may have larger batches: the checkpoint, not the limit, determines the start.
    rest = copying(spark, broker.bootstrap_servers, topic, tmp_path, RECORDS).trigger(availableNow=True)
    run_to_end(rest.start)

    assert sorted(row.value for row in spark.read.parquet(str(tmp_path / "table")).collect()) == values


def kill_in_mid_stream(bootstrap: str, topic: str, folder: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.endless_stream", bootstrap, topic, str(folder)]
    with (folder / "log").open("wb") as log:
        driver = subprocess.Popen(command, cwd=PROJECT_ROOT, stdout=log, stderr=log, start_new_session=True)
    try:
        until(
            lambda: committed_batches(folder) >= BATCHES_BEFORE_THE_END,
            "no batch came",
            3 * DEADLINE,
            every=0.02,
            meanwhile=still_running(driver, lambda: (folder / "log").read_text()[-2000:]),
        )
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # with the JVM, which is its child
        driver.wait(DEADLINE)


def committed_batches(folder: Path) -> int:
    return len([entry for entry in (folder / "checkpoint" / "commits").glob("*") if entry.name.isdigit()])
