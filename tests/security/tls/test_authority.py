"""Own certificates: created once, kept, renewed in time, and private."""

from __future__ import annotations

import datetime
import ssl
import stat
from pathlib import Path

import pytest

from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.security.tls.authority import Authority, own_certificate, own_hosts
from barnabas.security.tls.stores import CertificateStore

HOSTS = ("localhost", "127.0.0.1", "broker.example")


def names_of(authority: Authority) -> frozenset[str]:
    return own_certificate(CertificateStore("test", str(authority.broker))).names


def test_certificates_are_made_once_and_kept(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    assert authority.provide(HOSTS)
    kept = {path.name: path.read_bytes() for path in authority.folder.iterdir()}
    assert set(kept) == {"ca.pem", "ca-key.pem", "broker.pem"}
    assert not Authority(tmp_path / "tls").provide(HOSTS)
    assert {path.name: path.read_bytes() for path in authority.folder.iterdir()} == kept
    assert names_of(authority) == set(HOSTS)


def test_files_are_private(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    authority.provide(HOSTS)
    assert stat.S_IMODE(authority.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in authority.folder.iterdir()} == {0o600}


def test_a_new_name_or_the_end_of_its_time_makes_a_new_certificate_of_the_same_authority(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path / "tls")
    authority.provide(HOSTS)
    trusted = authority.certificate.read_bytes()
    assert authority.provide((*HOSTS, "10.0.0.5"))
    assert "10.0.0.5" in names_of(authority)
    now = datetime.datetime.now(datetime.UTC)
    assert not authority.provide(HOSTS, now + datetime.timedelta(days=360))
    assert authority.provide(HOSTS, now + datetime.timedelta(days=380))
    assert authority.certificate.read_bytes() == trusted


def test_clients_that_trust_the_authority_accept_the_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    authority.provide(HOSTS)
    client = ssl.create_default_context(cafile=str(authority.certificate))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.broker)
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(one, other, server_hostname="broker.example")
    there = server.wrap_bio(other, one, server_side=True)
    for side in (here, there, here, there):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert here.getpeercert()


def test_unreadable_authority_is_reported_with_a_remedy(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    authority.provide(HOSTS)
    (authority.folder / "ca-key.pem").write_text("damaged")
    authority.broker.unlink()
    with pytest.raises(SecuritySettingError, match="delete that folder to create a new authority"):
        authority.provide(HOSTS)


def test_this_machine_has_names_and_no_wildcard() -> None:
    hosts = own_hosts({"0.0.0.0", "", "broker.example"})
    assert {"localhost", "127.0.0.1", "::1", "broker.example"} <= hosts
    assert not hosts & {"", "0.0.0.0", "::"}
