"""GSSAPI with a real KDC (MIT Kerberos) and Kafka's Java client."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from barnabas.common.clock import SystemClock
from barnabas.config.setting import ConfigError
from barnabas.security.authn.kerberos_names import parse_rules
from barnabas.security.authn.sasl.gssapi import Acceptor, GssapiExchange
from barnabas.security.authn.sasl.login import Authenticated, AuthenticationFailedError
from barnabas.testing import EmbeddedBroker
from tests.support.kafka.jars import requires_java
from tests.support.kafka.tools import TOOL_FLAGS, run_tool
from tests.support.programs import SERVERS, find, free_port, missing
from tests.support.sasl import properties, sasl_settings, until_logged

REALM = "BARNABAS.TEST"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
KRB5_CONF = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
}}
"""
KDC_CONF = """\
[kdcdefaults]
kdc_ports = {port}
kdc_tcp_ports = {port}
[realms]
{realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
}}
"""


@dataclass(frozen=True)
class Kdc:
    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "krb5.conf"

    def keytab(self, name: str) -> Path:
        return self.folder / f"{name}.keytab"

    def jaas(self, keytab: str, principal: str) -> str:
        store = f'useKeyTab=true storeKey=true keyTab="{self.keytab(keytab)}" principal="{principal}@{REALM}"'
        return f"{MODULE} required {store};"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    if importlib.util.find_spec("gssapi") is None:
        missing("the library of barnabas[kerberos] is not here")
    create, administer, serve = find("kdb5_util", "kadmin.local", "krb5kdc")
    made = Kdc(tmp_path_factory.mktemp("kdc"))
    port = free_port()
    made.config.write_text(KRB5_CONF.format(realm=REALM, port=port))
    (made.folder / "kdc.conf").write_text(KDC_CONF.format(realm=REALM, port=port, folder=made.folder))
    environment = {
        **os.environ,
        "KRB5_CONFIG": str(made.config),
        "KRB5_KDC_PROFILE": str(made.folder / "kdc.conf"),
        "PATH": SERVERS,
    }
    run(environment, create, "create", "-s", "-P", "master", "-r", REALM)
    for principal, keytab in (
        ("kafka/localhost", "broker"),
        ("kafka/127.0.0.1", "broker"),
        ("alice", "alice"),
    ):
        run(environment, administer, "-q", f"addprinc -randkey {principal}")
        run(environment, administer, "-q", f"ktadd -k {made.keytab(keytab)} {principal}")
    with subprocess.Popen([serve, "-n", "-P", str(made.folder / "pid")], env=environment) as process:
        before = os.environ.get("KRB5_CONFIG")
        os.environ["KRB5_CONFIG"] = str(made.config)
        try:
            yield made
        finally:
            os.environ.pop("KRB5_CONFIG")
            if before is not None:
                os.environ["KRB5_CONFIG"] = before
            process.terminate()


def run(environment: dict[str, str], *command: str) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def settings(kdc: Kdc, **others: str) -> dict[str, str]:
    return sasl_settings(
        ("GSSAPI",),
        **{
            "sasl.kerberos.service.name": "kafka",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": kdc.jaas("broker", "kafka/localhost"),
            **others,
        },
    )


def list_topics(kdc: Kdc, running: EmbeddedBroker, folder: Path) -> tuple[int, str]:
    config = folder / "client.properties"
    config.write_text(
        properties(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": kdc.jaas("alice", "alice"),
            }
        )
    )
    done = run_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", running.bootstrap_servers, "--command-config", str(config), "--list"),
        flags=(*TOOL_FLAGS, f"-Djava.security.krb5.conf={kdc.config}"),
    )
    return done.returncode, done.stdout + done.stderr


@requires_java
def test_a_ticket_is_enough(kdc: Kdc, tmp_path: Path) -> None:
    with EmbeddedBroker(settings(kdc)) as running:
        code, output = list_topics(kdc, running, tmp_path)

        assert code == 0, output
        assert running.broker.authentication.counts[True, False]["SASL_PLAINTEXT"] >= 1


@requires_java
def test_a_principal_that_no_rule_is_about_is_refused(
    kdc: Kdc, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = {"sasl.kerberos.principal.to.local.rules": "RULE:[2:$1]"}
    with EmbeddedBroker(settings(kdc, **rules)) as running:
        code, output = list_topics(kdc, running, tmp_path)

    assert code != 0
    assert "invalid credentials" in output
    until_logged(caplog, f"'alice@{REALM}' is refused: no rule")


def test_tokens_that_are_no_tickets_are_refused(kdc: Kdc) -> None:
    acceptor = Acceptor(str(kdc.keytab("broker")), f"kafka/localhost@{REALM}", parse_rules(["DEFAULT"]))
    for token in (b"", b"x", b"\x60\x82" + bytes(500)):
        with pytest.raises(AuthenticationFailedError):
            GssapiExchange(acceptor).step(token)


def authenticated(kdc: Kdc, exchange: GssapiExchange, monkeypatch: pytest.MonkeyPatch) -> Authenticated:
    """The end of an exchange with the library of a client whose ticket the KDC has just issued."""
    import gssapi

    monkeypatch.setenv("KRB5CCNAME", "MEMORY:test-ticket-end")
    name = gssapi.Name(f"alice@{REALM}", gssapi.NameType.kerberos_principal)
    credentials = gssapi.Credentials(
        name=name, usage="initiate", store={"client_keytab": str(kdc.keytab("alice"))}
    )
    target = gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service)
    client = gssapi.SecurityContext(name=target, creds=credentials, usage="initiate")
    answer = exchange.step(client.step())
    while not client.complete:
        answer = exchange.step(client.step(answer.message) or b"")
    choice = client.wrap(b"\x01\0\0\0", False).message
    done = exchange.step(choice if client.unwrap(answer.message).message else b"")
    assert isinstance(done, Authenticated)
    return done


@pytest.mark.parametrize("ends", [True, False])
def test_a_session_ends_with_its_ticket_if_that_is_wanted(
    kdc: Kdc, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    acceptor = Acceptor(str(kdc.keytab("broker")), f"kafka/localhost@{REALM}", parse_rules(["DEFAULT"]))
    clock = SystemClock()
    now = clock.now_ms()

    done = authenticated(kdc, GssapiExchange(acceptor, clock.now_ms if ends else None), monkeypatch)

    assert done.principal.name == "alice"
    if ends:
        assert done.expires_ms is not None
        assert now + 60_000 < done.expires_ms < now + 25 * 3_600_000
    else:
        assert done.expires_ms is None


@requires_java
def test_java_clients_work_where_sessions_end_with_the_ticket(kdc: Kdc, tmp_path: Path) -> None:
    with EmbeddedBroker(settings(kdc, **{"barnabas.credential.change.ends.sessions": "true"})) as running:
        code, output = list_topics(kdc, running, tmp_path)
        assert code == 0, output


@pytest.mark.parametrize(
    ("jaas", "reason"),
    [
        (f'{MODULE} required keyTab="/none" principal="kafka/localhost@{REALM}";', "names the keytab /none"),
        (f'{MODULE} required keyTab="/none";', "must have keyTab and principal"),
        (
            f'{MODULE} required keyTab="/none" principal="other/h@{REALM}";',
            "the principal of the keytab is other/h",
        ),
        ("PlainLoginModule required;", "must contain Krb5LoginModule"),
    ],
)
def test_settings_that_cannot_work_are_refused(kdc: Kdc, jaas: str, reason: str) -> None:
    values = settings(kdc, **{"listener.name.sasl_plaintext.gssapi.sasl.jaas.config": jaas})

    with pytest.raises(ConfigError) as refusal, EmbeddedBroker(values):
        pass
    assert reason in str(refusal.value)
