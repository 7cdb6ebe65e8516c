"""Apache Kafka Connect's runtime with a third-party plugin."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.connect.worker import ConnectWorker, find_libs, read_configs
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.connect.support import consume
from tests.support.cli import Cli
from tests.support.kafka.jars import kafka_libs, requires_java
from tests.support.programs import PROJECT_ROOT, free_port
from tests.support.waiting import until

DEADLINE = 240.0
PLUGIN = PROJECT_ROOT / ".cache" / "connect-plugins" / "connect-file-4.3.1.jar"
"""Of Apache Kafka, which keeps it out of its class path: `make connect-worker` fetches it."""
REST_EXTENSION = PROJECT_ROOT / ".cache" / "connect-rest"


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "barnabas", "connect", "worker", *arguments]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def distribution(folder: Path) -> Path:
    """Kafka's jars with the extension that its distribution has as well."""
    libs = folder / "libs"
    libs.mkdir()
    for jar in (*kafka_libs().glob("*.jar"), *REST_EXTENSION.glob("*.jar")):
        (libs / jar.name).symlink_to(jar.resolve())
    return libs


@requires_java
@pytest.mark.extended
@pytest.mark.timeout(600)
def test_a_plugin_of_others_runs_and_is_in_the_status(tmp_path: Path) -> None:
    if not PLUGIN.exists():
        pytest.skip("no plugin of Apache Kafka: run `make connect-worker`")
    (tmp_path / "in.txt").write_text("first\nsecond\n")
    config = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "file": str(tmp_path / "in.txt"),
        "topic": "lines",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    (tmp_path / "lines.json").write_text(json.dumps({"name": "lines", "config": config}))
    with EmbeddedBroker() as broker:
        broker.create_topic("lines")
        cli, servers = Cli(broker.bootstrap_servers), broker.bootstrap_servers
        arguments = [
            "lines.json",
            "--plugins",
            str(PLUGIN.parent),
            "--kafka-libs",
            str(distribution(tmp_path)),
        ]
        port = free_port()
        arguments += ["--port", str(port), "-b", servers]

        def shown() -> list[tuple[str, str]]:
            found = json.loads(cli.ok("connect", "status", "-o", "json").out)
            return [(one["connector"], one["state"]) for one in found]

        with running(tmp_path, *arguments) as process:
            until(
                lambda: shown() == [("lines", "running")],
                lambda: (tmp_path / "log").read_text()[-4000:],
                seconds=DEADLINE,
            )
            until(
                lambda: len(consume(servers, "lines")) == 2,
                lambda: (tmp_path / "log").read_text()[-4000:],
                seconds=DEADLINE,
            )
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/connectors", timeout=60)
            process.terminate()
            assert process.wait(DEADLINE) == 0
        assert [one.value() for one in consume(servers, "lines")] == [b"first", b"second"]
        assert shown() == [("lines", "stopped")]


class Scripted(ConnectWorker):
    """A runtime whose answers are written down."""

    def __init__(self, states: list[str]) -> None:
        super().__init__("")
        self.states, self.asked = states, list[str]()

    def _ask(self, method: str, path: str, body: object = None) -> object:
        self.asked.append(f"{method} {path}")
        task = {"id": 0, "state": self.states[0], "trace": "java.io.IOException: away\n\tat x"}
        return (
            {"c": {"status": {"connector": {"state": "RUNNING"}, "tasks": [task]}}}
            if method == "GET"
            else None
        )


def test_a_task_that_has_failed_is_started_again_after_a_pause() -> None:
    worker = Scripted(["FAILED"])
    [first] = worker.look(0.0)
    assert (first.state, first.error) == ("retrying", "java.io.IOException: away")
    worker.look(0.5)
    assert not any("restart" in one for one in worker.asked)
    worker.look(1.5)
    assert worker.asked[-1] == "POST /connectors/c/restart?includeTasks=true&onlyFailed=true"
    worker.states[0] = "RUNNING"
    [now] = worker.look(2.0)
    assert (now.state, now.error, now.counts["restarts"]) == ("running", "", 1)


def test_invalid_connector_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"name": "a"}')
    with pytest.raises(
        PipelineError, match=r"a\.json is not a connector: expected JSON with `name` and `config`"
    ):
        read_configs([tmp_path / "a.json"])
    (tmp_path / "b.properties").write_text("name=b\ntasks.max=1\n")
    assert read_configs([tmp_path / "b.properties"]) == {"b": {"name": "b", "tasks.max": "1"}}
    with pytest.raises(PipelineError, match="connect-runtime not found in"):
        find_libs(tmp_path)
