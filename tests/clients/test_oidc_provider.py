"""Tokens of a real OpenID provider (npm oidc-provider), which librdkafka fetches itself."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.apache_kafka import free_port
from tests.clients.conftest import consume, produce
from tests.kafka_jars import PROJECT_ROOT
from tests.programs import find, missing
from tests.sasl_broker import sasl_settings

INSTALLED = PROJECT_ROOT / ".cache" / "identity-provider"
PROGRAM = Path(__file__).parent / "identity_provider" / "provider.mjs"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    (node,) = find("node")
    if not (INSTALLED / "node_modules").is_dir():
        missing("there is no OpenID provider here (oidc-provider, with npm)")
    folder = tmp_path_factory.mktemp("provider")
    shutil.copy(PROGRAM, folder)
    (folder / "node_modules").symlink_to(INSTALLED / "node_modules")
    address = f"http://127.0.0.1:{(port := free_port())}"
    command = [node, str(folder / PROGRAM.name), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert any("listening" in line for line in process.stdout)
            yield address
        finally:
            process.terminate()


def test_librdkafka_logs_in_with_a_token_of_an_openid_provider(issuer: str) -> None:
    settings = {
        "sasl.oauthbearer.jwks.endpoint.url": f"{issuer}/jwks",
        "sasl.oauthbearer.expected.issuer": issuer,
        "sasl.oauthbearer.expected.audience": "urn:barnabas",
    }
    client = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_method": "oidc",
        "sasl_oauthbearer_client_id": "alice",
        "sasl_oauthbearer_client_secret": "her-client-secret",
        "sasl_oauthbearer_token_endpoint_url": f"{issuer}/token",
    }
    topic = f"oidc-{uuid.uuid4()}"
    with EmbeddedBroker(sasl_settings(("OAUTHBEARER",), **settings)) as running:
        produce(running.bootstrap_servers, topic, [b"one"], **client)
        assert [each.value() for each in consume(running.bootstrap_servers, topic, 1, **client)] == [b"one"]
        users = {str(each.context.principal) for each in running.broker.sockets.connections}

    assert users <= {"User:alice", "User:ANONYMOUS"}
