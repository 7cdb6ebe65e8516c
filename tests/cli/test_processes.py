"""The command line as a separate process."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from barnabas.cli.main import make_app
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.broker import answers_api_versions
from tests.support.programs import free_port

BARNABAS = [sys.executable, "-m", "barnabas"]


def run(*arguments: str, bootstrap: str = "", stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BARNABAS_BOOTSTRAP": bootstrap or "127.0.0.1:1"}
    return subprocess.run(
        [*BARNABAS, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )


def wait_for_line(process: subprocess.Popen[str], text: str) -> str:
    """The first line with this text; the process ending first is an error, and pytest's timeout a limit."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"the process ended with {process.wait()} before it said {text!r}")


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [*BARNABAS, "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            line = wait_for_line(process, "Barnabas is ready on ")
            yield process, int(line.rpartition(":")[2])
        finally:
            process.kill()


def test_serve_reports_readiness_and_stops_cleanly(
    serving: tuple[subprocess.Popen[str], int], tmp_path: Path
) -> None:
    process, port = serving
    assert answers_api_versions("127.0.0.1", port)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_records_go_through_a_pipe(serving: tuple[subprocess.Popen[str], int]) -> None:
    _, port = serving
    bootstrap = f"127.0.0.1:{port}"
    assert run("produce", "greetings", bootstrap=bootstrap, stdin="hello\nworld\n").returncode == 0
    read = run("consume", "greetings", "--from", "beginning", "--exit-at-end", bootstrap=bootstrap)
    assert (read.stdout, read.stderr) == ("hello\nworld\n", "")


def test_settings_come_from_a_file_and_options_win(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    taken = free_port()
    properties.write_text(
        f"listeners=PLAINTEXT://127.0.0.1:{taken}\nlog.dirs={tmp_path / 'data'}\nnode.id=7\n"
    )
    command = [*BARNABAS, "serve", "--config", str(properties), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            port = int(wait_for_line(process, "Barnabas is ready on ").rpartition(":")[2])
            assert port != taken
            described = run("cluster", "describe", "-o", "json", bootstrap=f"127.0.0.1:{port}")
            assert '"controller_id": 7' in described.stdout
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--set", "log.retension.ms=1"), "log.retention.ms"),
        (("--set", "log.retention.ms=soon"), "log.retention.ms"),
        (("--set", "nonsense"), "NAME=VALUE"),
        (("--listen", "127.0.0.1:port"), "HOST:PORT"),
    ],
)
def test_wrong_settings_end_with_2_and_the_reason(
    tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    ended = run("serve", "--data", str(tmp_path), *arguments)
    assert ended.returncode == 2
    assert reason in ended.stderr
    assert "Traceback" not in ended.stderr


def test_serve_needs_a_folder() -> None:
    ended = run("serve")
    assert ended.returncode == 2
    assert "--data DIR" in ended.stderr


def test_port_in_use_is_reported_without_a_traceback(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run("serve", "--data", str(tmp_path), "--listen", address)
    assert ended.returncode == 1
    assert address.rpartition(":")[2] in ended.stderr
    assert "Traceback" not in ended.stderr


def test_missing_broker_is_reported_with_the_address_and_a_remedy() -> None:
    ended = run("topics", "list", bootstrap="127.0.0.1:1")
    assert ended.returncode == 1
    assert "No broker answers at 127.0.0.1:1" in ended.stderr
    assert "barnabas serve --data DIR" in ended.stderr


def test_a_reader_that_has_enough_ends_the_command(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()
    run("produce", topic, bootstrap=broker.bootstrap_servers, stdin="x\n" * 100)
    command = [*BARNABAS, "consume", topic, "--from", "beginning", "-b", broker.bootstrap_servers]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"x\n"
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_an_interrupted_consumer_ends_quietly(broker: EmbeddedBroker) -> None:
    topic = broker.create_topic()
    run("produce", topic, bootstrap=broker.bootstrap_servers, stdin="x\n")
    command = [*BARNABAS, "consume", topic, "--from", "beginning", "-b", broker.bootstrap_servers]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_line(process, "x")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")


def test_help_is_quick() -> None:
    """200 ms on an idle machine. CPU time varies little with other load, and the minimum of three less."""
    assert min(seconds_for_help() for _ in range(3)) < 0.3


def seconds_for_help() -> float:
    before = os.times()
    assert run("--help").returncode == 0
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def test_help_imports_nothing_that_commands_need() -> None:
    code = "import sys; from barnabas.cli.main import make_app; make_app(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    modules = set(loaded.stdout.split())
    assert not modules & {
        "asyncio",
        "rich",
        "msgspec",
        "fastcrc",
        "barnabas.broker",
        "barnabas.network",
        "barnabas.protocol",
    }


def test_the_version_is_shown() -> None:
    assert run("version").stdout.startswith("barnabas ")


def test_only_the_requested_command_is_built() -> None:
    """Commands start in half the time; for a wrong name all of them are listed."""
    complete = names(make_app())
    for arguments, expected in (("ingest", ["ingest", "version"]), ("serve", ["serve", "version"])):
        assert names(make_app(arguments)) == expected
    for arguments in ("serv", "--help", ""):
        assert names(make_app(arguments)) == complete


def names(app: typer.Typer) -> list[str | None]:
    groups = [each.name for each in app.registered_groups]
    return groups + [each.name for each in app.registered_commands]


def test_a_command_imports_no_other_command() -> None:
    code = "import sys; from barnabas.cli.main import make_app; make_app('serve'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    others = {"barnabas.cli.topics", "barnabas.cli.ingest.commands", "barnabas.cli.pipeline.commands"}
    assert not others & set(done.stdout.split())
