"""`serve --registry`: a companion process that logs in automatically, is restarted, and ends with the broker."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.programs import descendants, free_port
from tests.support.registry import Rest
from tests.support.waiting import until

READY = "The schema registry is ready on"


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until_closed(port: int) -> None:
    until(lambda: not is_open(port), "the registry outlives its broker")


@pytest.mark.slow
def test_a_registry_logs_in_to_its_own_broker_comes_back_and_dies_with_it(tmp_path: Path) -> None:
    port = free_port()
    broker = BrokerProcess(tmp_path, options=("--users", "--tls", "auto", "--registry", f"127.0.0.1:{port}"))
    with broker:
        broker.until_it_says(READY)
        password = re.findall(r"with the password (\S+)", "".join(broker.lines))[0]
        with Rest(f"http://127.0.0.1:{port}", f"admin:{password}") as admin:
            assert admin.register("orders-value", '"string"').body == {"id": 1}
        with Rest(f"http://127.0.0.1:{port}") as nobody:
            assert nobody.get("/subjects").status == 401
        broker.lines[:] = [line for line in broker.lines if READY not in line]
        registry = next(
            pid for pid in descendants(broker.pid) if b"registry" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        assert password.encode() not in Path(f"/proc/{registry}/cmdline").read_bytes()
        os.kill(registry, signal.SIGKILL)
        broker.until_it_says(READY)
        with Rest(f"http://127.0.0.1:{port}", f"admin:{password}") as admin:
            assert admin.get("/subjects").body == ["orders-value"]
        broker.kill()
        wait_until_closed(port)
