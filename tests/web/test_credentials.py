"""Authentication of HTTP metrics."""

from __future__ import annotations

import json
import logging
import ssl
import urllib.request
from base64 import b64encode
from pathlib import Path
from urllib.error import HTTPError

import pytest

from barnabas.config.setting import ConfigError
from barnabas.network.exposure import warn_if_metrics_exposed
from barnabas.testing import EmbeddedBroker
from barnabas.web.credentials import HttpCredentials

PASSWORD, TOKEN = "open sesame", "tok-4711"


def head(*authorizations: str) -> bytes:
    lines = "".join(f"Authorization: {each}\r\n" for each in authorizations)
    return f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode()


def basic(text: str) -> str:
    return "Basic " + b64encode(text.encode()).decode()


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.write_text(f"# who may look\nprometheus:{PASSWORD}\n\nbob:second\n")
    return path


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"{TOKEN}\n")
    return path


def test_user_with_a_password_and_bearer_of_a_token_are_authenticated(users: Path, tokens: Path) -> None:
    credentials = HttpCredentials(str(users), str(tokens))
    assert credentials.accept(head(basic(f"prometheus:{PASSWORD}")))
    assert credentials.accept(head(basic("bob:second").replace("Basic", "bAsIc")))
    assert credentials.accept(head(f"Bearer {TOKEN}"))
    assert credentials.challenge == 'Basic realm="metrics", Bearer'


@pytest.mark.parametrize(
    "authorizations",
    [
        (),
        ("",),
        ("Basic",),
        ("Basic ",),
        ("Bearer",),
        ("Bearer ",),
        (basic(""),),
        (basic(":"),),
        (basic("prometheus:"),),
        (basic(f":{PASSWORD}"),),
        (basic(f"bob:{PASSWORD}"),),
        (basic("# who may look"),),
        ("Basic not-base64!",),
        (f"Bearer {TOKEN}x",),
        (f"Bearer {PASSWORD}",),
        (TOKEN,),
        (f"Digest {TOKEN}",),
        (f"Bearer {TOKEN}", f"Bearer {TOKEN}"),
    ],
)
def test_cve_2025_61673_an_absent_or_wrong_credential_is_refused(
    users: Path, tokens: Path, authorizations: tuple[str, ...]
) -> None:
    assert not HttpCredentials(str(users), str(tokens)).accept(head(*authorizations))


def test_scheme_without_its_file_authenticates_no_user(users: Path, tokens: Path) -> None:
    assert not HttpCredentials(users_file=str(users)).accept(head(f"Bearer {TOKEN}"))
    assert not HttpCredentials(tokens_file=str(tokens)).accept(head(basic(f"prometheus:{PASSWORD}")))


def test_changed_file_is_reloaded_and_a_missing_one_authenticates_no_user(users: Path) -> None:
    credentials = HttpCredentials(str(users))
    users.write_text("prometheus:another one\n")
    assert not credentials.accept(head(basic(f"prometheus:{PASSWORD}")))
    assert credentials.accept(head(basic("prometheus:another one")))
    users.write_text("\n")
    assert not credentials.accept(head(basic("prometheus:another one")))
    users.unlink()
    assert not credentials.accept(head(basic("prometheus:another one")))
    users.write_text("prometheus:back again\n")
    assert credentials.accept(head(basic("prometheus:back again")))


@pytest.mark.parametrize("content", [None, "", "# nobody\n"])
def test_missing_or_empty_file_fails_the_start_with_a_message(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=r"barnabas\.metrics\.tokens\.file=.*(cannot be read|is empty)"):
        EmbeddedBroker({"barnabas.metrics.listen": ":0", "barnabas.metrics.tokens.file": str(path)}).start()


def read(url: str, authorization: str = "", context: ssl.SSLContext | None = None) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Authorization": authorization} if authorization else {})
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_broker_shows_metrics_to_whom_it_knows_and_to_others_only_that_it_is_up(
    users: Path, tokens: Path, tmp_path: Path
) -> None:
    """Over TLS, with the certificate of a listener; and no secret is on the page."""
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "barnabas.tls.auto": "true",
        "ssl.truststore.password": "trusted-secret",
        "barnabas.metrics.listen": ":0",
        "barnabas.metrics.tls.listener": "ssl",
        "barnabas.metrics.users.file": str(users),
        "barnabas.metrics.tokens.file": str(tokens),
    }
    with EmbeddedBroker(settings, data_dir=tmp_path / "data") as broker:
        context = ssl.create_default_context(cafile=str(tmp_path / "data" / "tls" / "ca.pem"))
        url = f"https://localhost:{broker.broker.monitoring.http.port}"
        assert read(f"{url}/metrics", context=context)[0] == 401
        assert read(f"{url}/anything", context=context)[0] == 401
        assert read(f"{url}/metrics", "Bearer wrong", context)[0] == 401
        assert json.loads(read(f"{url}/health", context=context)[1]) == {"status": "up"}
        assert "node_id" in read(f"{url}/health", f"Bearer {TOKEN}", context)[1]
        for authorization in (f"Bearer {TOKEN}", basic(f"prometheus:{PASSWORD}")):
            status, page = read(f"{url}/metrics", authorization, context)
            assert status == 200
            assert "kafka_server_" in page
            assert not any(secret in page for secret in (TOKEN, PASSWORD, "trusted-secret"))


def test_a_listener_without_tls_cannot_lend_its_certificate(tmp_path: Path) -> None:
    settings = {"barnabas.metrics.listen": ":0", "barnabas.metrics.tls.listener": "PLAINTEXT"}
    with pytest.raises(ConfigError, match=r"barnabas\.metrics\.tls\.listener=PLAINTEXT is not"):
        EmbeddedBroker(settings).start()


@pytest.mark.parametrize(
    ("address", "is_authenticated", "is_encrypted", "warning"),
    [
        ("127.0.0.1:9100", False, False, None),
        (":9100", False, False, None),
        ("[::1]:9100", False, False, None),
        ("localhost:9100", False, False, None),
        ("*:9100", False, False, "read the names"),
        ("0.0.0.0:9100", False, True, "read the names"),
        ("[::]:9100", True, False, "sent unencrypted"),
        ("broker-1:9100", True, True, None),
    ],
)
def test_metrics_that_other_machines_reach_are_warned_of(
    caplog: pytest.LogCaptureFixture,
    address: str,
    is_authenticated: bool,
    is_encrypted: bool,
    warning: str | None,
) -> None:
    warn_if_metrics_exposed(address, is_authenticated=is_authenticated, is_encrypted=is_encrypted)
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(messages) == (warning is not None)
    assert warning is None or warning in messages[0]
