"""A Python worker of Spark's daemon: works, waits for another task, and is dropped."""

import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.serializers import read_int

# The daemon takes modules whose names begin like this. The first call is the task, the second the wait for another one.
WORKER = "pyspark_of_a_test"
TASK = """
from pyspark.serializers import write_int

done = False

def main(infile, outfile):
    global done
    if done:
        from pyspark.worker import main as wait
        wait(infile, outfile)
    done = True
    {what}
    write_int(1, outfile)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Paths of sockets have room for a hundred characters, so not pytest's."""
    with tempfile.TemporaryDirectory(prefix="barnabas-") as folder:
        yield Path(folder)


def what_a_worker_leaves(folder: Path, task: str) -> str:
    """Standard error after Spark has closed a worker's socket, and then the daemon's input."""
    (folder / f"{WORKER}.py").write_text(TASK.format(what=task))
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
        "SPARK_REUSE_WORKER": "1",
    }
    command = [sys.executable, "-m", "pyspark.daemon", WORKER]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as daemon:
        assert daemon.stdout is not None
        path = daemon.stdout.read(read_int(daemon.stdout)).decode()
        with socket.socket(socket.AF_UNIX) as spark:
            spark.connect(path)
            with spark.makefile("rb") as answers:
                worker = os.pidfd_open(read_int(answers))
                assert read_int(answers) == 1, "the task was not done"
        try:
            assert select.select([worker], [], [], 60)[0], "the worker goes on"
        finally:
            os.close(worker)
        return daemon.communicate(timeout=60)[1].decode()


def test_worker_that_has_read_a_topic_exits_silently(folder: Path) -> None:
    assert what_a_worker_leaves(folder, "import pyspark_barnabas") == ""


def test_another_one_leaves_a_traceback(folder: Path) -> None:
    """If this fails, PySpark has fixed it, and our workaround can be removed."""
    assert "BrokenPipeError" in what_a_worker_leaves(folder, "pass")
