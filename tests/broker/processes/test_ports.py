"""Configurations of processes, and those rejected before any socket is opened."""

import pytest

from barnabas.broker.processes import NodeConfig
from barnabas.config.setting import ConfigError


def node(count: int, **settings: str) -> NodeConfig:
    properties = {"log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:9092"}
    return NodeConfig(properties | {name.replace("_", "."): text for name, text in settings.items()}, count)


def test_process_k_has_its_own_id_and_ports() -> None:
    made = node(
        3,
        listeners="PLAINTEXT://:9092,SSL://[::1]:9192",
        advertised_listeners="PLAINTEXT://host:19092,SSL://host:19192",
        node_id="7",
    )
    assert [each.node_id for each in made.processes] == [7, 1007, 2007]
    assert [str(spec) for spec in made.processes[2].listeners] == ["PLAINTEXT://:9094", "SSL://[::1]:9194"]
    assert [spec.port for spec in made.processes[1].advertised_listeners] == [19093, 19193]


def test_bytes_of_the_machine_are_divided() -> None:
    made = node(4, queued_max_request_bytes="400000000")
    assert {each["queued.max.request.bytes"] for each in made.processes} == {100_000_000}
    assert {each["queued.max.request.bytes"] for each in node(4).processes} == {
        node(1).processes[0]["queued.max.request.bytes"] // 4
    }


def test_each_process_has_its_own_audit_file() -> None:
    files = [each["barnabas.audit.file"] for each in node(2, barnabas_audit_file="/var/audit").processes]
    assert files == ["/var/audit", "/var/audit.1"]


def test_any_free_port_stays_any_free_port() -> None:
    assert [each.listeners[0].port for each in node(2, listeners="PLAINTEXT://:0").processes] == [0, 0]


@pytest.mark.parametrize(
    ("count", "settings", "words"),
    [
        (2, {"listeners": "PLAINTEXT://:9092,SSL://:9093"}, "port 9093.*barnabas.processes.port.step"),
        (
            3,
            {"barnabas_metrics_listen": "127.0.0.1:9094"},
            "process 2 .*port 9094.*barnabas.metrics.listen",
        ),
        (2, {"zookeeper_connect": "zk:2181"}, "zookeeper.connect is set.*one process only"),
        (2, {"listeners": "PLAINTEXT://:65535"}, "port 65536.*lower port"),
        (2, {"node_id": "1001"}, "node.id=1001 allows one process only"),
        (0, {}, "0 processes: choose from 1 to 256"),
        (257, {}, "choose from 1 to 256"),
    ],
)
def test_incompatible_options_are_rejected(count: int, settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        node(count, **settings)


def test_a_step_makes_room() -> None:
    made = node(2, listeners="PLAINTEXT://:9092,SSL://:9093", barnabas_processes_port_step="10")
    assert [spec.port for spec in made.processes[1].listeners] == [9102, 9103]


def test_more_processes_than_open_files_allow_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda what: (128, 128))
    with pytest.raises(ConfigError, match="16 processes need 208 open files"):
        node(16)
