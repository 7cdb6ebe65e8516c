"""PLAIN's passwords in an LDAP server (slapd), through the entry point for authenticators."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from barnabas.broker.security.mechanisms import load_authenticator
from barnabas.cluster.deltas import AclsChanged
from barnabas.config.setting import ConfigError
from barnabas.security.authn.ldap import Ldap, authenticator, escaped
from barnabas.security.authn.sasl.login import Authenticated
from barnabas.security.authn.sasl.plain import PlainExchange
from barnabas.security.authz.acls import AclBinding, PatternType, Permission
from barnabas.security.authz.authorizer import Operation, ResourceType
from barnabas.security.principal import Principal
from barnabas.testing import EmbeddedBroker
from tests.support.programs import find, free_port
from tests.support.sasl import commit, login, sasl_settings
from tests.support.waiting import until

SUFFIX = "dc=example,dc=com"
USER_DN = f"uid={{}},{SUFFIX}"
CONFIG = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/slapd.pid
database mdb
maxsize 10485760
suffix "{suffix}"
rootdn "cn=admin,{suffix}"
rootpw admin-password
directory {folder}/data
"""
ENTRIES = f"""\
dn: {SUFFIX}
objectClass: dcObject
objectClass: organization
dc: example
o: example

dn: uid=alice,{SUFFIX}
objectClass: account
objectClass: simpleSecurityObject
uid: alice
userPassword: her secret
"""


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Its port."""
    server, _ = find("slapd", "ldapadd")
    folder = tmp_path_factory.mktemp("slapd")
    (folder / "data").mkdir()
    (folder / "slapd.conf").write_text(CONFIG.format(folder=folder, suffix=SUFFIX))
    port = free_port()
    url = f"ldap://127.0.0.1:{port}"
    command = [server, "-h", url, "-f", str(folder / "slapd.conf"), "-d", "0"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            _add_entries(url)
            yield port
        finally:
            process.terminate()


def _add_entries(url: str) -> None:
    add = ["ldapadd", "-x", "-H", url, "-D", f"cn=admin,{SUFFIX}", "-w", "admin-password"]
    until(
        lambda: (
            not subprocess.run(add, input=ENTRIES, text=True, capture_output=True, check=False).returncode
        ),
        "slapd does not answer",
    )


@pytest.fixture(scope="module")
def options(slapd: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("options") / "ldap.properties"
    file.write_text(f"url=ldap://127.0.0.1:{slapd}\nuser.dn={USER_DN}\n")
    return file


def test_an_ldap_server_knows_passwords(options: Path) -> None:
    check = load_authenticator("ldap", str(options))

    assert check.is_right("alice", "her secret")
    assert not check.is_right("alice", "wrong")
    assert not check.is_right("alice", "")
    assert not check.is_right("nobody", "her secret")
    assert not check.is_right(f"alice,{SUFFIX}", "her secret")


def test_clients_log_in_with_passwords_of_an_ldap_server(options: Path) -> None:
    settings = sasl_settings(
        ("PLAIN",),
        **{
            "listener.name.sasl_plaintext.plain.barnabas.plain.authenticator": "ldap",
            "listener.name.sasl_plaintext.plain.barnabas.plain.authenticator.config": str(options),
        },
    )
    with EmbeddedBroker(settings) as running:
        known = AdminClient(
            {"bootstrap.servers": running.bootstrap_servers, **login("PLAIN", "alice", "her secret")}
        )
        assert known.list_topics(timeout=60).brokers

        errors: list[KafkaError] = []
        wrong: dict[str, Any] = {**login("PLAIN", "alice", "wrong"), "error_cb": errors.append}
        unknown = AdminClient({"bootstrap.servers": running.bootstrap_servers, **wrong})
        while not any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            unknown.poll(0.1)


NAMES = ["alice", "ALICE", " Alice ", "\uff41lice"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_ldap_takes_for_a_user_is_that_user(options: Path, name: str) -> None:
    """Otherwise ALICE would evade a DENY for alice."""
    exchange = PlainExchange(load_authenticator("ldap", str(options)))

    done = exchange.step(f"\0{name}\0her secret".encode())

    assert isinstance(done, Authenticated)
    assert done.principal == Principal("User", "alice")


def test_the_name_may_be_kept_as_the_client_sends_it(options: Path, tmp_path: Path) -> None:
    keeping = tmp_path / "ldap.properties"
    keeping.write_text(options.read_text() + "principal.case=keep\n")
    done = PlainExchange(load_authenticator("ldap", str(keeping))).step(b"\0ALICE\0her secret")

    assert isinstance(done, Authenticated)
    assert done.principal == Principal("User", "ALICE")


def test_denial_for_a_user_ignores_the_case_of_its_name(options: Path) -> None:
    settings = sasl_settings(
        ("PLAIN",),
        **{
            "listener.name.sasl_plaintext.plain.barnabas.plain.authenticator": "ldap",
            "listener.name.sasl_plaintext.plain.barnabas.plain.authenticator.config": str(options),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
    )
    with EmbeddedBroker(settings) as running:
        topic = (ResourceType.TOPIC, "secret", PatternType.LITERAL)
        everyone = AclBinding(*topic, "User:*", "*", Operation.DESCRIBE, Permission.ALLOW)
        alice = AclBinding(*topic, "User:alice", "*", Operation.DESCRIBE, Permission.DENY)
        commit(running, [AclsChanged(added=(everyone, alice))])
        for name in ("alice", "ALICE"):
            chosen = login("PLAIN", name, "her secret")
            admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, **chosen})
            error = admin.list_topics("secret", timeout=60).topics["secret"].error
            assert error is not None
            assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, name


def test_unresponsive_server_authenticates_no_user() -> None:
    with pytest.raises(OSError, match="refused"):
        Ldap("127.0.0.1", free_port(), USER_DN, None, 5.0).is_right("alice", "her secret")


def test_a_name_stays_one_value_of_a_distinguished_name() -> None:
    assert escaped('a,b=c+"d"\\ #') == "a\\2cb\\3dc\\2b\\22d\\22\\5c\\20\\23"


@pytest.mark.parametrize(
    ("options_text", "reason"),
    [
        ("", "url must be ldaps://"),
        ("url=ldap://ldap.example.com", "must be ldaps, or ldap to this machine"),
        ("url=ldaps://h\nuser.dn=uid=alice", "user.dn must be a distinguished name with {}"),
        ("uri=ldaps://h", "uri is not an option of ldap"),
        ("url=ldaps://h\nuser.dn={}\nca.file=/does/not/exist", "No such file"),
    ],
)
def test_options_that_cannot_work_are_refused(tmp_path: Path, options_text: str, reason: str) -> None:
    file = tmp_path / "ldap.properties"
    file.write_text(options_text)

    with pytest.raises(ConfigError) as refusal:
        load_authenticator("ldap", str(file))
    assert reason in str(refusal.value)


def test_unknown_authenticator_is_rejected() -> None:
    with pytest.raises(
        ConfigError, match=r"no installed package provides that authenticator .*: there is ldap"
    ):
        load_authenticator("os.system", None)


def test_the_default_port_is_that_of_the_scheme() -> None:
    assert authenticator({"url": "ldaps://127.0.0.1", "user.dn": "{}"})._address == ("127.0.0.1", 636)
