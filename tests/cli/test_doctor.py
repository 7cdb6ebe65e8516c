"""`barnabas doctor`: each finding, with its real cause."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.certificates import Authority, Signed
from tests.support.cli import Cli
from tests.support.programs import free_port


def findings(cli: Cli, *arguments: str) -> list[dict[str, Any]]:
    found = cli("doctor", *arguments, "-o", "json")
    rows = found.json
    has_problem = any(row["level"] == "problem" for row in rows)
    assert found.code == int(has_problem), found
    assert all(row["remedy"] for row in rows if row["level"] != "ok")
    return list(rows)


def of(rows: list[dict[str, Any]], check: str, text: str = "") -> dict[str, Any]:
    """The finding of a check, with this text."""
    return next(row for row in rows if row["check"].startswith(check) and text in row["text"])


def write_key_store(folder: Path, signed: Signed) -> list[str]:
    path = folder / "listener.pem"
    path.write_text(signed.key_pem() + signed.certificate_pem)
    return ["-X", "ssl.keystore.type=PEM", "-X", f"ssl.keystore.location={path}"]


@pytest.fixture
def alone() -> Cli:
    """Without a cluster to check."""
    return Cli("")


def test_a_machine_and_its_cluster_are_in_order(cli: Cli, broker: EmbeddedBroker, topic: str) -> None:
    rows = findings(cli)
    assert of(rows, "versions")["text"].startswith("Barnabas ")
    assert "descriptors" in of(rows, "file descriptors")["text"]
    assert of(rows, "cluster", "1 broker, ")["level"] == "ok"
    assert (
        of(rows, "broker 1")["text"]
        == f"advertises {broker.bootstrap_servers}, which can be connected from here"
    )
    assert of(rows, "partitions")["level"] == "ok"


def test_the_table_ends_with_a_count(cli: Cli) -> None:
    assert cli("doctor").out.splitlines()[-1].startswith("0 problems, ")


def test_no_cluster_at_the_given_address_is_a_problem(alone: Cli) -> None:
    found = of(findings(alone, "-b", f"127.0.0.1:{free_port()}"), "cluster")
    assert found["level"] == "problem"
    assert "barnabas serve" in found["remedy"]


def test_an_advertised_address_that_clients_cannot_reach_is_a_problem(alone: Cli) -> None:
    settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}
    with EmbeddedBroker(settings=settings) as broker:
        found = of(findings(alone, "-b", broker.bootstrap_servers), "broker 1")
    assert found["level"] == "problem"
    assert "advertised.listeners" in found["remedy"]


@pytest.fixture
def used(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(data_dir=tmp_path / "data") as broker:
        yield broker


def test_a_data_folder_in_use_is_recognised(alone: Cli, used: EmbeddedBroker, tmp_path: Path) -> None:
    data, port = str(tmp_path / "data"), used.bootstrap_servers.rpartition(":")[2]
    rows = findings(alone, "--data", data, "-X", f"listeners=PLAINTEXT://127.0.0.1:{port}")
    assert of(rows, "data", "in use by a running broker")["level"] == "ok"
    assert of(rows, "listener")["text"] == f"127.0.0.1:{port} is in use by the running broker"
    elsewhere = f"listeners=PLAINTEXT://127.0.0.1:{free_port()}"
    assert of(findings(alone, "--data", data, "-X", elsewhere), "listener")["level"] == "warning"


def test_a_folder_of_another_broker_is_a_problem(alone: Cli, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with EmbeddedBroker(data_dir=data):
        pass
    port = f"listeners=PLAINTEXT://127.0.0.1:{free_port()}"
    assert "stopped cleanly" in of(findings(alone, "--data", str(data), "-X", port), "data")["text"]
    found = of(findings(alone, "--data", str(data), "-X", port, "-X", "node.id=7"), "data", "belongs to")
    assert found["level"] == "problem"
    assert "node.id=1" in found["remedy"]
    (data / "meta.properties").write_text("version=1\n")
    assert of(findings(alone, "--data", str(data), "-X", port), "data", "is invalid")["level"] == "problem"


def test_data_folders_that_cannot_be_used_are_problems(alone: Cli, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    port = f"listeners=PLAINTEXT://127.0.0.1:{free_port()}"
    assert of(findings(alone, "--data", str(file), "-X", port), "data")["text"] == "is not a folder"
    rows = findings(
        alone, "--data", str(tmp_path), "-X", port, "-X", f"barnabas.disk.reserve.bytes={1 << 60}"
    )
    assert of(rows, "data", "appends are refused below")["level"] == "problem"
    assert of(rows, "data", "an fsync takes")["text"]
    assert list(tmp_path.glob(".barnabas*")) == []


def test_a_port_in_use_is_a_problem(alone: Cli, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        rows = findings(
            alone, "--data", str(tmp_path / "new"), "-X", f"listeners=PLAINTEXT://127.0.0.1:{port}"
        )
    assert of(rows, "data")["text"] == "does not exist yet; the broker creates it"
    assert of(rows, "listener")["level"] == "problem"
    assert f"sport = :{port}" in of(rows, "listener")["remedy"]


def test_an_advertised_host_that_does_not_resolve_is_a_problem(alone: Cli, tmp_path: Path) -> None:
    settings = [
        f"listeners=PLAINTEXT://127.0.0.1:{free_port()}",
        "advertised.listeners=PLAINTEXT://nowhere.invalid:9092",
    ]
    options = [part for setting in settings for part in ("-X", setting)]
    found = of(findings(alone, "--data", str(tmp_path / "new"), *options), "advertised listener")
    assert found["level"] == "problem"
    assert "nowhere.invalid does not resolve" in found["text"]


def test_certificates_are_checked(alone: Cli, tmp_path: Path) -> None:
    authority, port = Authority(), free_port()
    listeners = [
        "-X",
        f"listeners=SSL://127.0.0.1:{port}",
        "-X",
        f"advertised.listeners=SSL://localhost:{port}",
    ]

    def certificate(name: str, *, expired: bool = False) -> dict[str, Any]:
        options = write_key_store(tmp_path, authority.sign(name, expired=expired))
        return of(findings(alone, "--data", str(tmp_path / "new"), *listeners, *options), "certificate")

    assert certificate("localhost")["level"] == "warning"  # those of tests expire in 30 days
    assert certificate("localhost", expired=True)["text"] == "CN=localhost has expired"
    (tmp_path / "listener.pem").write_text("no certificate")
    broken = ["-X", "ssl.keystore.type=PEM", "-X", f"ssl.keystore.location={tmp_path / 'listener.pem'}"]
    rows = findings(alone, "--data", str(tmp_path / "new"), *listeners, *broken)
    assert of(rows, "certificate")["level"] == "problem"


def test_a_zookeeper_that_does_not_answer_is_a_problem(alone: Cli, tmp_path: Path) -> None:
    options = [f"zookeeper.connect=127.0.0.1:{free_port()}/b", "zookeeper.connection.timeout.ms=500"]
    settings = [part for setting in options for part in ("-X", setting)]
    port = f"listeners=PLAINTEXT://127.0.0.1:{free_port()}"
    found = of(findings(alone, "--data", str(tmp_path / "new"), "-X", port, *settings), "zookeeper")
    assert found["level"] == "problem"
