"""Settings of schema registry clients, parsed in one place."""

from __future__ import annotations

import json
import pickle
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from barnabas.client.schemas.client import RegistryError
from barnabas.client.schemas.settings import UNDERSTOOD, RegistryAccount, is_secret_setting, parse_registry
from barnabas.security.authn import SecuritySettingError
from barnabas.security.tls import Authority
from tests.support.programs import PROJECT_ROOT

URL = "https://registry:8081"


def parsed(**settings: str) -> RegistryAccount:
    found = parse_registry({name.replace("_", "."): value for name, value in settings.items()})
    assert found is not None
    return found


def test_names_are_those_of_confluents_clients() -> None:
    assert parse_registry({"security.protocol": "SSL"}) is None
    account = parsed(schema_registry_url=f"{URL}/", schema_registry_basic_auth_user_info="ann:a:b")
    assert (account.url, account.user, account.password.text) == (URL, "ann", "a:b")
    assert parsed(basic_auth_user_info="ann:secret").password.text == "secret"
    assert parsed(bearer_auth_token="abc").token.text == "abc"
    assert parse_registry({"schema.registry.url": "http://a:1"}, "http://b:2") == RegistryAccount(
        "http://b:2"
    )


def test_secrets_are_masked_and_reach_tasks() -> None:
    account = parsed(schema_registry_url="https://ann:hunter22@registry", bearer_auth_token="to:ken")
    assert "hunter22" not in repr(account)
    assert "to:ken" not in repr(account)
    assert pickle.loads(pickle.dumps(account)) == account
    login = parsed(schema_registry_url="https://ann:hunter22@registry:8081/path")
    assert (login.url, login.user, login.password.text) == (f"{URL}/path", "ann", "hunter22")
    assert is_secret_setting("schema.registry.basic.auth.user.info")
    assert is_secret_setting("schema.registry.ssl.key.password")
    assert not is_secret_setting("schema.registry.url")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"schema.registry.ulr": URL}, r"did you mean schema\.registry\.url"),
        ({"schema.registry.url": "registry:8081"}, "write http://HOST:PORT"),
        ({"schema.registry.url": "ftp://ann:hunter22@x"}, "'ftp://x'"),
        ({"schema.registry.basic.auth.user.info": "ann"}, "must be USER:PASSWORD"),
        ({"basic.auth.user.info": "a:b", "bearer.auth.token": "c"}, "set one of them"),
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, "must be STATIC_TOKEN"),
        (
            {"schema.registry.url": "http://x", "schema.registry.ssl.ca.location": "ca"},
            "the URL must be https",
        ),
        ({"schema.registry.url": "${env:SECRET}"}, "BARNABAS_REFERENCES"),
    ],
)
def test_wrong_setting_is_named_with_a_remedy(
    settings: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BARNABAS_REFERENCES", raising=False)  # Spark's tests set it for their process
    with pytest.raises(SecuritySettingError, match=problem) as error:
        parse_registry(settings)
    assert "hunter22" not in str(error.value)


def test_references_are_resolved_for_trusted_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_LOGIN", "ann:secret")
    settings = {"schema.registry.basic.auth.user.info": "${env:REGISTRY_LOGIN}"}
    found = parse_registry(settings, references=True)
    assert found is not None
    assert found.password.text == "secret"


class Registry(BaseHTTPRequestHandler):
    login = ""

    def do_GET(self) -> None:
        Registry.login = self.headers["Authorization"]
        body = json.dumps({"schema": '"int"'}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Quiet."""


@pytest.fixture
def https(tmp_path: Path) -> Iterator[str]:
    certificate = Authority(tmp_path).client("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_ca_is_a_setting(https: str, tmp_path: Path) -> None:
    settings = {"schema.registry.url": https, "schema.registry.bearer.auth.token": "abc"}
    untrusting = parse_registry(settings)
    assert untrusting is not None
    with (
        untrusting.client() as client,
        pytest.raises(RegistryError, match=r"schema\.registry\.ssl\.ca\.location"),
    ):
        client.schema(1)
    settings |= {
        "schema.registry.ssl.ca.location": str(tmp_path / "ca.pem"),
        "schema.registry.ssl.endpoint.identification.algorithm": "none",
    }
    trusting = parse_registry(settings)
    assert trusting is not None
    with trusting.client() as client:
        assert client.schema(1).text == '"int"'
    assert Registry.login == "Bearer abc"


def test_the_page_lists_the_settings() -> None:
    page = (PROJECT_ROOT / "docs" / "registry.md").read_text()
    for name, meaning in UNDERSTOOD.items():
        assert f"| `{name}` | {meaning} |" in page
