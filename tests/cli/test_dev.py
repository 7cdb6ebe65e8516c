"""`barnabas dev` as a process: addresses, sample data, cleanup."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.support.programs import free_port
from tests.support.waiting import until

BARNABAS = [sys.executable, "-m", "barnabas"]


@contextmanager
def dev(tmp_path: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its banner. Its temporary files are in `tmp_path`."""
    command = [*BARNABAS, "dev", *options]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment, process_group=0
    ) as process:
        try:
            yield process, banner_of(process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal
            _, log = process.communicate(timeout=60)
        assert "restarting" not in log, log


def banner_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "Ctrl-C" in line:
            return "".join(lines)
    assert process.stderr is not None
    raise AssertionError(f"ended with {process.wait()}: {process.stderr.read()}")


def records_of(bootstrap: str, topic: str, wanted: int) -> list[dict[str, object]]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "test", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        read: list[bytes | None] = []

        def has_enough() -> bool:
            message = consumer.poll(1)
            if message is not None and not message.error():
                read.append(message.value())
            return len(read) >= wanted

        until(has_enough)
        return [json.loads(value or b"") for value in read]
    finally:
        consumer.close()


def status_of(url: str) -> int:
    with urllib.request.urlopen(url, timeout=30) as response:
        return int(response.status)


@pytest.mark.slow
def test_all_services_answer_and_no_data_is_left(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(3)]
    names = ("--listen", "--registry", "--console")
    options = [text for name, port in zip(names, ports, strict=True) for text in (name, f"127.0.0.1:{port}")]
    with dev(tmp_path, *options) as (process, banner):
        assert "for development: no passwords" in banner
        addresses = banner.partition("Sample")[0]
        assert re.findall(r"127\.0\.0\.1:(\d+)\n", addresses) == [str(port) for port in ports]
        bootstrap = f"127.0.0.1:{ports[0]}"
        assert f"barnabas consume orders --bootstrap-server {bootstrap}" in banner
        assert {"order_id", "customer", "amount"} <= records_of(bootstrap, "orders", 3)[0].keys()
        assert {"customer", "page", "device"} <= records_of(bootstrap, "clicks", 3)[0].keys()
        assert status_of(f"http://127.0.0.1:{ports[1]}/subjects") == 200
        assert status_of(f"http://127.0.0.1:{ports[2]}/") == 200
    assert process.returncode == 0
    assert list(tmp_path.glob("barnabas-dev-*")) == []


def test_a_port_in_use_is_replaced_and_given_data_is_kept(tmp_path: Path) -> None:
    """Default ports only: a requested port must be free. It is unknown whether 9092 is free here."""
    with socket.socket() as occupied:
        try:
            occupied.bind(("127.0.0.1", 9092))
            occupied.listen()
        except OSError:
            pass  # in use by something else
        with dev(tmp_path, "--data", str(tmp_path / "kept"), "--no-sample") as (process, banner):
            assert re.search(r"Kafka +127\.0\.0\.1:\d+  \(port 9092 is in use\)", banner)
            assert "Sample" not in banner
    assert process.returncode == 0
    assert (tmp_path / "kept" / "meta.properties").exists()


def test_an_address_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [*BARNABAS, "dev", "--console", "8090"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "--console" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_in_a_terminal_reaches_the_broker_only(tmp_path: Path) -> None:
    """It stops registry and console sequentially; a companion that exits would be restarted meanwhile."""
    with dev(tmp_path, "--no-sample", f"--listen=127.0.0.1:{free_port()}") as (process, _):
        children = [  # each belongs to the thread that started it
            child
            for thread in Path(f"/proc/{process.pid}/task").iterdir()
            for child in (thread / "children").read_text().split()
        ]
        assert children
        assert process.pid not in {os.getpgid(int(child)) for child in children}
