"""TLS of a listener: rejected settings and their messages, versions, ciphers."""

from __future__ import annotations

import shlex
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.security.tls.server import ListenerTls, explain_client, listener_tls, server_context
from tests.support.certificates import Authority
from tests.support.kafka.jars import requires_java

AUTHORITY = Authority()
OWN = AUTHORITY.sign("localhost", "127.0.0.1")
SECRET = "s3cret-of-the-key"


def wanted(**settings: str) -> ListenerTls:
    """Of the listener OUT with these settings, whose dots are underscores."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    config = BrokerConfig.load(
        {
            "listeners": "OUT://127.0.0.1:0",
            "listener.security.protocol.map": "OUT:SSL",
            "log.dirs": "x",
            **named,
        }
    )
    return listener_tls("OUT", lambda name: config.of_listener("OUT", name))


def in_settings(**settings: str) -> ListenerTls:
    return wanted(
        ssl_keystore_certificate_chain=OWN.certificate_pem, ssl_keystore_key=OWN.key_pem(), **settings
    )


def refusal(make: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        make()
    text = str(refused.value)
    assert text.startswith("Listener OUT: ")
    assert SECRET not in text
    return text.removeprefix("Listener OUT: ")


def test_a_listener_without_a_key_store_is_refused() -> None:
    assert refusal(wanted).startswith("ssl.keystore.location is missing: a TLS listener needs")


def test_a_key_store_that_is_missing_or_is_none_is_named(tmp_path: Path) -> None:
    missing, none = tmp_path / "missing.pem", tmp_path / "none.pem"
    none.write_text("nothing")
    store = {"ssl_keystore_location": str(missing)}
    assert refusal(lambda: server_context(wanted(**store))).endswith(
        f"names {missing}, which cannot be read: No such file or directory"
    )
    store = {"ssl_keystore_location": str(none)}
    assert refusal(lambda: server_context(wanted(**store))).endswith("is neither PEM nor PKCS12")


def test_a_key_of_another_certificate_is_refused() -> None:
    settings = {
        "ssl_keystore_certificate_chain": OWN.certificate_pem,
        "ssl_keystore_key": AUTHORITY.sign("other").key_pem(),
    }
    assert "contains a key that does not match the certificate" in refusal(
        lambda: server_context(wanted(**settings))
    )


@pytest.mark.parametrize("password", ["", "wrong"])
def test_a_key_that_the_password_does_not_open_is_refused(password: str) -> None:
    settings = {
        "ssl_keystore_certificate_chain": OWN.certificate_pem,
        "ssl_keystore_key": OWN.key_pem(SECRET),
        **({"ssl_key_password": password} if password else {}),
    }
    text = refusal(lambda: server_context(wanted(**settings)))
    assert text.startswith("ssl.key.password " + ("does not decrypt" if password else "is missing"))


def test_pkcs12_is_read_with_its_password_and_with_no_other(tmp_path: Path) -> None:
    store = tmp_path / "broker.p12"
    store.write_bytes(OWN.store(SECRET))
    good = {"ssl_keystore_location": str(store), "ssl_keystore_password": SECRET}
    assert server_context(wanted(**good))
    bad = {**good, "ssl_keystore_password": "wrong"}
    assert refusal(lambda: server_context(wanted(**bad))).endswith("is damaged or has a different password")


@requires_java
def test_jks_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    """Run the command from the error message, for a key with a separate password."""
    store = tmp_path / "of a broker.jks"
    making = [
        "keytool",
        "-genkeypair",
        "-storetype",
        "JKS",
        "-keystore",
        str(store),
        "-storepass",
        "changeit",
    ]
    making += ["-keypass", "of-the-key", "-alias", "me", "-keyalg", "EC", "-dname", "CN=localhost"]
    subprocess.run(making, check=True, capture_output=True, timeout=60)
    text = refusal(lambda: server_context(wanted(ssl_keystore_location=str(store))))
    named, _, command = text.partition("after converting the store: ")
    target = store.with_suffix(".p12")
    assert f"set {target} and its password instead" in named
    answers = "new-one\nnew-one\nchangeit\nof-the-key\n"
    subprocess.run(
        shlex.split(command), check=True, input=answers, text=True, capture_output=True, timeout=60
    )
    assert server_context(wanted(ssl_keystore_location=str(target), ssl_keystore_password="new-one"))


def test_client_certificates_need_a_trust_store() -> None:
    text = refusal(lambda: in_settings(ssl_client_auth="required"))
    assert text.startswith(
        "ssl.truststore.location is missing: ssl.client.auth=required needs the authorities of"
    )


@pytest.mark.parametrize(("word", "mode"), [("none", 0), ("requested", 1), ("required", 2)])
def test_client_certificates_are_requested_by_the_setting(word: str, mode: int) -> None:
    context = server_context(
        in_settings(ssl_client_auth=word, ssl_truststore_certificates=AUTHORITY.pem.replace("\n", "\\n"))
    )
    assert context.verify_mode == mode


def test_a_listener_has_settings_of_its_own() -> None:
    tls = in_settings(listener_name_out_ssl_enabled_protocols="TLSv1.3", ssl_enabled_protocols="TLSv1.2")
    context = server_context(tls)
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_3


def test_ciphers_have_the_names_of_java_and_of_openssl() -> None:
    names = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    for text in (names, "ECDHE-ECDSA-AES128-GCM-SHA256,ECDHE-ECDSA-CHACHA20-POLY1305"):
        context = server_context(in_settings(ssl_cipher_suites=text))
        assert context.maximum_version == ssl.TLSVersion.TLSv1_2
        chosen = [one["name"] for one in context.get_ciphers() if one["protocol"] == "TLSv1.2"]
        assert chosen == ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"]


def test_suites_of_tls_1_3_alone_mean_tls_1_3_alone() -> None:
    suites = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"
    assert server_context(in_settings(ssl_cipher_suites=suites)).minimum_version == ssl.TLSVersion.TLSv1_3
    some = in_settings(ssl_cipher_suites="TLS_AES_128_GCM_SHA256")
    assert "lists only some suites of TLS 1.3" in refusal(lambda: server_context(some))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ssl_cipher_suites": "TLS_NO_SUCH_SUITE"}, "lists no cipher known to OpenSSL"),
        (
            {"ssl_cipher_suites": "ECDHE-ECDSA-AES128-GCM-SHA256", "ssl_enabled_protocols": "TLSv1.3"},
            "has no suite for the versions of ssl.enabled.protocols",
        ),
    ],
)
def test_ciphers_that_leave_nothing_are_refused(settings: dict[str, str], words: str) -> None:
    assert words in refusal(lambda: server_context(in_settings(**settings)))


def test_versions_that_are_not_safe_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"ssl.enabled.protocols: String must be one of: TLSv1.2, TLSv1.3"):
        wanted(ssl_enabled_protocols="TLSv1.1")


def test_no_secret_is_shown_with_the_settings() -> None:
    tls = wanted(
        ssl_keystore_certificate_chain=OWN.certificate_pem,
        ssl_keystore_key=OWN.key_pem(),
        ssl_key_password=SECRET,
    )
    assert SECRET not in repr(tls)
    assert "PRIVATE KEY" not in repr(tls)


def test_a_failed_handshake_is_explained() -> None:
    error = ssl.SSLError(1, "[SSL: HTTP_REQUEST] http request")
    error.reason = "HTTP_REQUEST"
    assert explain_client(error).startswith("the client does not use TLS")
