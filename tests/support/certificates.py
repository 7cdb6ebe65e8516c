"""Certificates for one run of the tests: an authority, and certificates signed by it."""

import datetime
import ipaddress
from dataclasses import dataclass
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Signed:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Key

    @cached_property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def store(self, password: str) -> bytes:
        """A PKCS12 store with both."""
        encryption = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"mine", self.key, self.certificate, None, encryption)


class Authority:
    def __init__(self, name: str = "tests") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(f"{name} authority")
        builder = _builder(self._name, self._name, self._key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())

    @cached_property
    def pem(self) -> str:
        return self._certificate.public_bytes(Encoding.PEM).decode()

    def revoke(self, *revoked: Signed) -> str:
        """A current revocation list as PEM."""
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateRevocationListBuilder(self._name, now - _DAY, now + _DAY)
        for one in revoked:
            entry = x509.RevokedCertificateBuilder(one.certificate.serial_number, now - _DAY).build()
            builder = builder.add_revoked_certificate(entry)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()

    def trust_store(self, password: str) -> bytes:
        """A PKCS12 store without a key, as `keytool -importcert` makes it."""
        encryption = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(None, None, None, [self._certificate], encryption)

    def sign(self, name: str, *addresses: str, expired: bool = False, key: Key | None = None) -> Signed:
        key = key or ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), self._name, key, -2 * _DAY if expired else 30 * _DAY)
        names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name), *names]), critical=False
        )
        return Signed(builder.sign(self._key, hashes.SHA256()), key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: Key,
    life: datetime.timedelta = 30 * _DAY,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 10 * _DAY)
        .not_valid_after(now + life)
    )
