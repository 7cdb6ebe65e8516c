"""Registries over https: confluent-kafka's client, and forwarding between registries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError

from barnabas.security.tls.authority import Authority
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli
from tests.support.registry import Rest

READY = "The schema registry is ready on "
SECONDS = 60


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("tls"))
    made.provide(["127.0.0.1"])
    return made


@pytest.fixture(scope="module")
def tls_file(authority: Authority) -> Path:
    path = authority.folder / "registry.properties"
    path.write_text(
        f"ssl.keystore.location={authority.broker}\nssl.truststore.location={authority.certificate}\n"
    )
    return path


@contextmanager
def registry(broker: EmbeddedBroker, tls: Path) -> Iterator[str]:
    command = [
        sys.executable,
        "-m",
        "barnabas",
        "registry",
        "run",
        "--listen",
        "127.0.0.1:0",
        "--tls",
        str(tls),
    ]
    command += ["--bootstrap-server", broker.bootstrap_servers]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(READY)
        yield line.removeprefix(READY).strip()
    finally:
        process.terminate()
        process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()


def test_clients_and_other_registries_speak_https(authority: Authority, tls_file: Path) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        urls = [stack.enter_context(registry(broker, tls_file)) for _ in range(2)]
        assert all(url.startswith("https://127.0.0.1:") for url in urls)
        ids = set()
        for url in urls:  # one of them leads
            settings = {"url": url, "ssl.ca.location": str(authority.certificate)}
            client = stack.enter_context(SchemaRegistryClient(settings))
            ids.add(client.register_schema("https-value", Schema('"string"', "AVRO")))
            assert client.get_latest_version("https-value").schema_id in ids
        assert len(ids) == 1


def test_a_request_that_came_by_https_is_not_forwarded_in_plain_text(
    registry_broker: EmbeddedBroker, authority: Authority, tls_file: Path
) -> None:
    """The embedded registry leads, by http."""
    with Rest(registry_broker.registry_url) as plain:
        assert plain.register("plain-value", '"string"').status == 200
    with registry(registry_broker, tls_file) as url:
        settings = {"url": url, "ssl.ca.location": str(authority.certificate), "max.retries": 0}
        with (
            SchemaRegistryClient(settings) as client,
            pytest.raises(SchemaRegistryError, match="does not use https") as refused,
        ):
            client.register_schema("https-value", Schema('"long"', "AVRO"))
        assert refused.value.http_status_code == 503


def test_missing_certificate_is_reported_with_a_remedy(tmp_path: Path) -> None:
    empty = tmp_path / "empty.properties"
    empty.write_text("")
    for path, reason in (
        (empty, "https needs a certificate and its key"),
        (tmp_path / "none", "cannot be read"),
    ):
        refused = Cli("127.0.0.1:1")("registry", "run", "--listen", "127.0.0.1:0", "--tls", str(path))
        assert refused.code != 0
        assert reason in " ".join(refused.err.split())
        assert "Traceback" not in refused.err
