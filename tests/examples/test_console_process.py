"""The console next to the demo."""

import queue
import socket
import urllib.request
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from examples.demo import console_process
from examples.demo.console_process import ConsoleProcess


def test_console_prints_its_address_and_ends_with_the_demo(tmp_path: Path) -> None:
    lines: queue.Queue[str] = queue.Queue()
    with (
        EmbeddedBroker() as broker,
        ConsoleProcess(broker.bootstrap_servers, tmp_path, lines.put) as console,
    ):
        sentence = lines.get(timeout=60)
        address = sentence.rpartition(" ")[2]
        page = urllib.request.urlopen(f"{address}/c/default/pipelines", timeout=30).read()
        assert b"No pipeline has reported" in page
        process = console._process
        assert process is not None
        assert process.poll() is None
    assert process.poll() is not None


def test_another_port_is_taken_if_the_usual_one_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(console_process, "LISTEN", taken.getsockname())
        assert console_process._free_address() == "127.0.0.1:0"


def test_demo_reports_the_missing_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines: list[str] = []
    monkeypatch.setattr(console_process, "NEEDED", ("no_such_module_as_this",))
    with ConsoleProcess("127.0.0.1:1", tmp_path, lines.append):
        assert "barnabas[console]" in lines[0]
