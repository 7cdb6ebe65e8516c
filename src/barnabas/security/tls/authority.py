"""Local certificate authority for `--tls auto` and for tests.

    ca.pem       certificate of the authority, which clients trust
    ca-key.pem   its private key
    broker.pem   private key and certificate of the broker (`ssl.keystore.location`)

Only the owner can read the folder (0700, its files 0600). The broker's certificate is renewed when it is about to
expire or lacks a host name; the authority is kept, so that clients need no update.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.files import FILE_MODE, FOLDER_MODE
from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.security.tls.stores import CertificateStore, certificate_pem_of

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


# -- Host names and expiry of the broker's certificate -------------------------------------------------


class OwnCertificate(NamedTuple):
    subject: str
    names: frozenset[str]  # host names and addresses
    expires: float  # seconds since 1970


def own_certificate(store: CertificateStore) -> OwnCertificate:
    from cryptography import x509

    from barnabas.security.tls.mapping_rules import written

    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem_of(store))
    except ValueError:
        raise SecuritySettingError(store.setting, "contains an invalid certificate") from None
    return OwnCertificate(
        written(certificate.subject), _names(certificate), certificate.not_valid_after_utc.timestamp()
    )


def _names(certificate: object) -> frozenset[str]:
    from cryptography import x509

    assert isinstance(certificate, x509.Certificate)
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return frozenset()
    hosts = extension.value.get_values_for_type(x509.DNSName)
    return frozenset({*hosts, *map(str, extension.value.get_values_for_type(x509.IPAddress))})


AUTHORITY_DAYS = 3650
BROKER_DAYS = 397  # maximum that browsers accept; renewed automatically
RENEWED_DAYS = 30
_BEFORE = datetime.timedelta(hours=1)  # tolerates client clocks that are behind

AUTHORITY, AUTHORITY_KEY, BROKER = "ca.pem", "ca-key.pem", "broker.pem"


class Authority:
    """Authority in a folder, which is created with the first certificate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def certificate(self) -> Path:
        return self.folder / AUTHORITY

    @property
    def broker(self) -> Path:
        return self.folder / BROKER

    def provide(self, hosts: Iterable[str], now: datetime.datetime | None = None) -> bool:
        """Ensure that the broker's certificate covers these hosts and is not about to expire; True if renewed."""
        names, now = frozenset(hosts), now or datetime.datetime.now(datetime.UTC)
        if self._is_valid(names, now):
            return False
        _, certificate = self._create() if not self.certificate.exists() else self._load()
        name = next(iter(sorted(host for host in names if not _is_address(host))), "broker")
        pem = self.signed(name, names, now)
        _write(self.broker, pem + _pem(certificate))
        return True

    def signed(self, name: str, hosts: Iterable[str], now: datetime.datetime | None = None) -> bytes:
        """Create a key and a certificate for `name`, a broker or a client, as PEM."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        authority_key, authority = self._create() if not self.certificate.exists() else self._load()
        key = _new_key()
        names = [_general_name(host) for host in sorted(hosts)]
        builder = _builder(_name(name), authority.subject, key, BROKER_DAYS, now)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _key_pem(key) + _pem(builder.sign(authority_key, hashes.SHA256()))

    def client(self, name: str) -> Path:
        """Return the path of a client's key and certificate; they are created on the first call."""
        path = self.folder / f"client-{name.encode().hex()}.pem"
        if not path.exists():
            _write(path, self.signed(name, ()))
        return path

    def _is_valid(self, hosts: frozenset[str], now: datetime.datetime) -> bool:
        if not self.broker.exists():
            return False
        try:
            current = own_certificate(CertificateStore("barnabas.tls.auto", str(self.broker)))
        except SecuritySettingError:
            return False
        is_fresh = current.expires - now.timestamp() > RENEWED_DAYS * 86400
        return is_fresh and hosts <= current.names

    def _create(self) -> tuple[EllipticCurvePrivateKey, x509.Certificate]:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        key, name = _new_key(), _name(f"Barnabas authority of {socket.gethostname()}"[:64])
        builder = _builder(name, name, key, AUTHORITY_DAYS, None)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        certificate = builder.sign(key, hashes.SHA256())
        self.folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        _write(self.folder / AUTHORITY_KEY, _key_pem(key))
        _write(self.certificate, _pem(certificate))  # last: its presence marks a complete authority
        return key, certificate

    def _load(self) -> tuple[EllipticCurvePrivateKey, x509.Certificate]:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key((self.folder / AUTHORITY_KEY).read_bytes(), None)
            certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        except (OSError, ValueError):
            raise _damaged(self.folder) from None
        if not isinstance(key, EllipticCurvePrivateKey):
            raise _damaged(self.folder)
        return key, certificate


def _damaged(folder: Path) -> SecuritySettingError:
    problem = (
        f"needs the authority in {folder}, which cannot be read: delete that folder to create a new authority, and "
        f"distribute its {AUTHORITY} to all clients"
    )
    return SecuritySettingError("barnabas.tls.auto", problem)


def own_hosts(given: Iterable[str]) -> frozenset[str]:
    """Names and addresses that clients may use for this machine, including `given`."""
    name = socket.gethostname()
    hosts = {"localhost", "127.0.0.1", "::1", name, *given}
    with suppress(OSError):
        hosts |= {str(address[0]).partition("%")[0] for *_, address in socket.getaddrinfo(name, None)}
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing; finds the address of the outgoing interface
        hosts.add(probe.getsockname()[0])
    return frozenset(host for host in hosts if host not in ("", "0.0.0.0", "::"))


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    return x509.IPAddress(ipaddress.ip_address(host)) if _is_address(host) else x509.DNSName(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    days: int,
    now: datetime.datetime | None,
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = now or datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, data: bytes) -> None:
    """Write a file atomically, readable by the owner only."""
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    temporary.replace(path)
