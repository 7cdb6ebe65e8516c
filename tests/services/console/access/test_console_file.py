from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.client.addresses import Address
from barnabas.client.security.settings import Mechanism, SecurityProtocol
from barnabas.services.console.access.authenticators import ExposedConsoleError, gate_of
from barnabas.services.console.access.console_file import ConsoleFileError, read_console_file
from barnabas.services.console.access.model import AccessSettings, LoginKind, LoginSettings, Role
from barnabas.services.console.access.passwords import hash_of
from barnabas.services.console.settings import ClusterSettings, ConsoleSettings

HASH = str(hash_of("x", 14))
DIGEST = "ab" * 32
WHOLE = f"""
clusters:
  - name: production
    bootstrap: kafka1:9093,kafka2:9093
    settings:
      security.protocol: SASL_SSL
      sasl.mechanism: SCRAM-SHA-512
      sasl.username: console
      sasl.password: ${{env:CONSOLE_PASSWORD}}
    schema_registry: {{url: "https://registry:8081", user: console, password: "${{env:CONSOLE_PASSWORD}}"}}
    logs: [logs, nginx]
  - {{name: test, bootstrap: "127.0.0.1:9092"}}
listen: 0.0.0.0:8090
url: https://console.example
data: console-data
login:
  kind: service
  users: [{{name: alice, password: "{HASH}"}}]
  oidc: {{issuer: "https://id.example", client_id: console, client_secret: "${{env:CONSOLE_PASSWORD}}"}}
  idle: 10m
roles:
  - {{role: admin, users: [alice]}}
  - {{role: reader, groups: [ops], clusters: [production], names: ["orders.*"]}}
masks:
  - {{topics: ["pay*"], fields: [card.number], headers: [auth], key: true}}
tokens:
  - {{name: ci, digest: {DIGEST}, role: viewer, expires: "2027-01-31"}}
audit: {{topic: console-audit}}
"""


def read(folder: Path, text: str) -> ConsoleSettings:
    file = folder / "console.yml"
    file.write_text(text)
    return read_console_file(file)


def test_the_whole_file_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSOLE_PASSWORD", "the secret")
    settings = read(tmp_path, WHOLE)
    production, test = settings.clusters
    access = settings.access

    assert production.security.protocol is SecurityProtocol.SASL_SSL
    assert production.security.sasl is not None
    assert production.security.sasl.mechanism is Mechanism.SCRAM_SHA_512
    assert production.security.sasl.password.text == "the secret"
    assert production.registry.password.text == "the secret"
    assert (production.logs, test.bootstrap) == (("logs", "nginx"), "127.0.0.1:9092")
    assert settings.listen == Address("0.0.0.0", 8090)
    assert settings.data == tmp_path / "console-data"
    assert access.login.kind is LoginKind.SERVICE
    assert access.login.users["alice"].matches("x")
    assert access.login.oidc is not None
    assert access.login.oidc.redirect == "https://console.example/login/oidc/callback"
    assert access.login.idle == 600
    assert [grant.role for grant in access.grants] == [Role.ADMIN, Role.READER, Role.VIEWER]
    assert access.grants[2].principals == ["Token:ci"]
    assert access.masks[0].key
    assert access.tokens[0].expires == 1801353600
    assert access.audit.cluster == "production"


def test_no_secret_can_be_seen_in_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSOLE_PASSWORD", "the secret")
    assert "the secret" not in repr(read(tmp_path, WHOLE))


CLUSTERS = "clusters: [{name: one, bootstrap: '127.0.0.1:9092'}]\n"


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("", "is empty; it needs at least `clusters`"),
        ("listen: 127.0.0.1:1", "there are no `clusters`"),
        (CLUSTERS + "lisen: x", r"line 2: unknown key `lisen`; did you mean `listen`"),
        ("clusters:\n  - name: one\n    bootstrap: a:1\n    logz: [x]", r"line 4: unknown key `logz`; .* `logs`"),
        ("clusters:\n  - {name: one, bootstrap: 'a:x'}", "line 2: .*a:x"),
        ("clusters:\n  - {name: a/b, bootstrap: 'a:1'}", "line 2: not a valid cluster name: 'a/b'"),
        ("clusters:\n  - {name: a, bootstrap: 'a:1'}\n  - {name: a, bootstrap: 'a:1'}", "duplicate cluster name: a"),
        (CLUSTERS + "alarms: {silence: [Nonsense]}", "line 2: unknown alarm 'Nonsense'"),
        (CLUSTERS + "login: {kind: magic}", "line 2: Invalid enum value 'magic'"),
        (CLUSTERS + "login: {kind: service}", "line 2: .*needs `users` or `oidc`"),
        (CLUSTERS + "login: {kind: kafka, users: [{name: a, password: b}]}", "`users` are for `kind: service`"),
        (CLUSTERS + "login:\n  kind: service\n  users: [{name: a, password: open}]", "barnabas console password"),
        (CLUSTERS + "login: {kind: kafka, idle: soon}", "not a valid duration"),
        (CLUSTERS + "login: {kind: service, oidc: {issuer: 'https://x', client_id: y}}", "needs `url`"),
        (CLUSTERS + "login: {kind: service, oidc: {issuer: 'http://x', client_id: y}}", "must be https"),
        (CLUSTERS + "roles:\n  - {role: admin}", "line 3: a role needs `users` or `groups`"),
        (CLUSTERS + "roles:\n  - {role: admin, users: [a], names: ['a*b']}", "line 3: not a valid pattern: 'a\\*b'"),
        (CLUSTERS + "masks:\n  - {topics: [a]}", "line 3: .*hides nothing"),
        (CLUSTERS + "masks:\n  - {topics: [a], fields: [a..b]}", "not a valid field path"),
        (CLUSTERS + "tokens:\n  - {name: a, digest: open, role: viewer}", "barnabas console token"),
        (CLUSTERS + f"tokens:\n  - {{name: a, digest: {DIGEST}, role: viewer, expires: soon}}", "as 2027-01-31"),
        (CLUSTERS + "audit: {cluster: two}", "unknown cluster two"),
        (CLUSTERS + "data: ${env:NOT_SET_AT_ALL}", "NOT_SET_AT_ALL, which is not set"),
        ("clusters:\n  - {name: a, bootstrap: 'a:1', settings: {sasl.password: x}}", "line 2: .*has no effect"),
        (CLUSTERS + "tls: {ssl.keystore.location: /nowhere}", "/nowhere"),
    ],
)  # fmt: skip
def test_errors_are_reported_with_their_line(tmp_path: Path, text: str, output: str) -> None:
    with pytest.raises(ConsoleFileError, match=output):
        read(tmp_path, text)


class Silent:
    async def logged_in(self, host: str, name: str, mechanism: str, is_allowed: bool) -> None:
        raise AssertionError


@pytest.mark.parametrize("listen", ["0.0.0.0:8090", "10.0.0.1:8090", "console.example:8090"])
def test_a_console_without_login_is_for_loopback_only(tmp_path: Path, listen: str) -> None:
    settings = read(tmp_path, CLUSTERS + f"listen: {listen}")

    with pytest.raises(ExposedConsoleError, match=r"the console has no login.*listen on 127.0.0.1"):
        gate_of(settings, Silent())
    gate_of(read(tmp_path, CLUSTERS + "listen: '[::1]:8090'"), Silent())


def test_a_login_without_https_that_others_can_reach_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    login = LoginSettings(LoginKind.SERVICE, {"alice": hash_of("a password", 14)})
    settings = replace(read(tmp_path, CLUSTERS), access=AccessSettings(login))
    gate_of(settings, Silent())
    gate_of(replace(settings, listen=Address("0.0.0.0", 8090), url="https://console.example"), Silent())
    assert not caplog.records
    gate_of(replace(settings, listen=Address("0.0.0.0", 8090)), Silent())
    assert "without https" in caplog.text


def test_a_login_as_oneself_needs_brokers_that_ask_for_a_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the cluster one does not use SASL"):
        gate_of(read(tmp_path, CLUSTERS + "login: {kind: kafka}"), Silent())


def test_alarms_can_be_silenced_and_metrics_published(tmp_path: Path) -> None:
    settings = read(tmp_path, CLUSTERS + "alarms: {silence: [GroupLate]}\npublish_metrics: ops")
    assert settings.silenced_alarms == {"GroupLate"}
    assert settings.publish_metrics == "ops"


def test_a_file_without_clusters_is_about_the_one_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "console.yml"
    file.write_text("read_only: true")
    settings = read_console_file(file, ClusterSettings("default", "127.0.0.1:9092"))

    assert [cluster.name for cluster in settings.clusters] == ["default"]
    assert settings.read_only
