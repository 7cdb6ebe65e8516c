"""TLS contexts from real files, created here or by keytool."""

import ssl
import subprocess
from pathlib import Path

import pytest

from barnabas.client.security.parsing import parse_security
from barnabas.client.security.tls import tls_context
from barnabas.security.authn.credentials import SecuritySettingError
from tests.support.certificates import Authority
from tests.support.kafka.jars import requires_java

AUTHORITY = Authority()
OURS = AUTHORITY.sign("client")


def context(**settings: str) -> ssl.SSLContext:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    tls = parse_security({"security.protocol": "SSL", **names}).tls
    assert tls is not None
    return tls_context(tls)


def written(path: Path, data: str | bytes) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


def test_a_trust_store_may_be_pem_or_pkcs12(tmp_path: Path) -> None:
    pem = written(tmp_path / "ca.pem", AUTHORITY.pem)
    store = written(tmp_path / "ca.p12", AUTHORITY.trust_store("hush"))

    assert len(context(ssl_truststore_location=pem).get_ca_certs()) == 1
    assert len(context(ssl_ca_location=pem).get_ca_certs()) == 1
    assert len(context(ssl_truststore_location=store, ssl_truststore_password="hush").get_ca_certs()) == 1
    assert len(context(ssl_truststore_certificates=AUTHORITY.pem).get_ca_certs()) == 1
    assert len(context(ssl_ca_pem=AUTHORITY.pem.replace("\n", "\\n")).get_ca_certs()) == 1


def test_only_the_given_authority_is_trusted(tmp_path: Path) -> None:
    made = context(ssl_ca_location=written(tmp_path / "ca.pem", AUTHORITY.pem))

    assert made.verify_mode is ssl.CERT_REQUIRED
    assert made.check_hostname


@pytest.mark.parametrize("password", [None, "hush"])
def test_a_certificate_of_this_side_comes_from_any_kind_of_store(
    tmp_path: Path, password: str | None
) -> None:
    key, certificate = OURS.key_pem(password), OURS.certificate_pem
    files = {
        "ssl_certificate_location": written(tmp_path / "c.pem", certificate),
        "ssl_key_location": written(tmp_path / "k.pem", key),
    }
    texts = {"ssl_keystore_certificate_chain": certificate, "ssl_keystore_key": key}
    both = {"ssl_keystore_location": written(tmp_path / "both.pem", key + certificate)}
    extra = {"ssl_key_password": password} if password else {}

    for settings in (files, texts, both):
        assert context(**settings, **extra)
    store = written(tmp_path / "both.p12", OURS.store("other"))
    assert context(ssl_keystore_location=store, ssl_keystore_password="other")


def test_the_key_of_a_pkcs12_store_is_nowhere_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = written(tmp_path / "both.p12", OURS.store("hush"))

    assert context(ssl_keystore_location=store, ssl_keystore_password="hush")
    assert [path.name for path in tmp_path.iterdir()] == ["both.p12"]


def test_store_errors_are_reported(tmp_path: Path) -> None:
    stranger = Authority("other").sign("client")
    p12 = written(tmp_path / "s.p12", AUTHORITY.trust_store("hush"))
    locked = written(tmp_path / "locked.pem", OURS.key_pem("hush") + OURS.certificate_pem)
    mixed = {"ssl_keystore_certificate_chain": OURS.certificate_pem, "ssl_keystore_key": stranger.key_pem()}
    wrong: list[tuple[dict[str, str], str]] = [
        ({"ssl_truststore_location": str(tmp_path / "gone")}, "gone, which cannot be read: No such file"),
        ({"ssl_truststore_location": written(tmp_path / "x", "hello")}, "neither PEM nor PKCS12"),
        (
            {"ssl_truststore_location": p12, "ssl_truststore_password": "oops"},
            "damaged or has a different password",
        ),
        ({"ssl_truststore_location": p12}, "damaged or has a different password"),
        (
            {"ssl_keystore_location": p12, "ssl_keystore_password": "hush"},
            "no private key with its certificate",
        ),
        ({"ssl_keystore_location": locked}, "ssl.key.password is missing"),
        (
            {"ssl_keystore_location": locked, "ssl_key_password": "oops"},
            "ssl.key.password does not decrypt the key",
        ),
        (mixed, "does not match the certificate"),
        (
            {"ssl_truststore_certificates": "-----BEGIN CERTIFICATE-----\nx"},
            "no valid certificate",
        ),
        ({"ssl_cipher_suites": "ROT13"}, "no cipher known to OpenSSL"),
    ]
    for settings, text in wrong:
        with pytest.raises(SecuritySettingError, match=text) as caught:
            context(**settings)
        assert "hush" not in str(caught.value)
        assert "PRIVATE" not in str(caught.value)


def test_versions_of_tls_can_be_chosen() -> None:
    made = context(ssl_enabled_protocols="TLSv1.2")

    assert made.minimum_version is made.maximum_version is ssl.TLSVersion.TLSv1_2


def test_checks_can_be_switched_off() -> None:
    assert not context(ssl_endpoint_identification_algorithm="").check_hostname
    assert context(enable_ssl_certificate_verification="false").verify_mode is ssl.CERT_NONE


@requires_java
def test_stores_of_keytool_are_read_or_refused_with_the_way_to_convert_them(tmp_path: Path) -> None:
    pem = written(tmp_path / "ca.pem", AUTHORITY.pem)
    stores = {kind: str(tmp_path / f"store.{kind.lower()}") for kind in ("PKCS12", "JKS")}
    for kind, path in stores.items():
        command = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", pem, "-keystore", path]
        subprocess.run(
            [*command, "-storetype", kind, "-storepass", "changeit"],
            check=True,
            capture_output=True,
            timeout=60,
        )

    trusted = context(ssl_truststore_location=stores["PKCS12"], ssl_truststore_password="changeit")
    assert len(trusted.get_ca_certs()) == 1
    with pytest.raises(SecuritySettingError, match=r"keytool -importkeystore .* -deststoretype PKCS12"):
        context(ssl_truststore_location=stores["JKS"], ssl_truststore_password="changeit")
