"""Conversion of key stores and trust stores to PEM, the format that OpenSSL reads.

The format of a file is detected from its content and not from `ssl.*.type`, as Java does for JKS and PKCS12. JKS is not
supported; the error contains the command that converts the file.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from barnabas.security.authn.credentials import Secret, SecuritySettingError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS and JCEKS
_DER_SEQUENCE = b"\x30"
_PEM_MARK = b"-----BEGIN "
_CERTIFICATE_MARK = b"-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class CertificateStore:
    """Keys or certificates, in a file (PEM or PKCS12) or in the setting itself (PEM)."""

    setting: str  # that configured it, for errors
    path: str | None = None
    text: Secret | None = None
    password: Secret | None = None


class Pem(NamedTuple):
    """A PEM file, and the password of its key."""

    path: Path
    password: str | None = None


def authorities_of(store: CertificateStore) -> str:
    """Return the certificates of a trust store as PEM."""
    data = _read(store)
    if not data.startswith(_DER_SEQUENCE):
        return data.decode("ascii", "replace")
    opened = _open_pkcs12(store, data)
    own = [opened.cert] if opened.cert else []
    certificates = [entry.certificate for entry in (*own, *opened.additional_certs)]
    if not certificates:
        raise SecuritySettingError(store.setting, f"names {store.path}, which contains no certificate")
    return "".join(_certificate_pem(certificate) for certificate in certificates)


def as_pem_file(store: CertificateStore, folder: Path) -> Pem:
    """Return the store's file if it is PEM; otherwise a converted file in `folder`, which the caller removes."""
    data = _read(store)
    password = store.password.text if store.password else None
    if not data.startswith(_DER_SEQUENCE):
        return Pem(Path(store.path), password) if store.path else Pem(_write(folder, data), password)
    temporary = secrets.token_urlsafe(32)  # encrypts the key while it is on disk
    return Pem(_write(folder, _key_and_chain(store, data, temporary)), temporary)


def certificate_pem_of(store: CertificateStore) -> bytes:
    """Return the first certificate of a key store, which belongs to its key."""
    data = _read(store)
    if data.startswith(_DER_SEQUENCE):
        opened = _open_pkcs12(store, data)
        return _certificate_pem(opened.cert.certificate).encode() if opened.cert else b""
    _, mark, content = data.partition(_CERTIFICATE_MARK)
    return mark + content


def _read(store: CertificateStore) -> bytes:
    if store.text is not None:
        data = store.text.text.encode()
    else:
        data = _read_file(store)
    if data.startswith(_JKS_MAGIC):
        raise SecuritySettingError(store.setting, _how_to_convert(str(store.path)))
    if not data.startswith(_DER_SEQUENCE) and _PEM_MARK not in data:
        where = f"names {store.path}, which" if store.path else "has a text that"
        raise SecuritySettingError(store.setting, f"{where} is neither PEM nor PKCS12")
    return data


def _read_file(store: CertificateStore) -> bytes:
    assert store.path is not None
    try:
        return Path(store.path).read_bytes()
    except OSError as error:
        problem = f"names {store.path}, which cannot be read: {error.strerror}"
        raise SecuritySettingError(store.setting, problem) from None


def _how_to_convert(path: str) -> str:
    target = Path(path).with_suffix(".p12")
    return (
        f"names {path}, a JKS store, which only Java can read; set {target} and its password instead, after converting "
        f"the store: keytool -importkeystore -srckeystore {quote(path)} -destkeystore {quote(str(target))} "
        "-deststoretype PKCS12"
    )


def _key_and_chain(store: CertificateStore, data: bytes, password: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    opened = _open_pkcs12(store, data)
    if opened.key is None or opened.cert is None:
        raise SecuritySettingError(
            store.setting, f"names {store.path}, which contains no private key with its certificate"
        )
    encryption = BestAvailableEncryption(password.encode())
    key = opened.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    chain = [opened.cert.certificate, *(entry.certificate for entry in opened.additional_certs)]
    return key + "".join(_certificate_pem(certificate) for certificate in chain).encode()


def _open_pkcs12(store: CertificateStore, data: bytes) -> PKCS12KeyAndCertificates:
    from cryptography.hazmat.primitives.serialization import pkcs12

    password = store.password.text.encode() if store.password else None
    try:
        return pkcs12.load_pkcs12(data, password)
    except ValueError:
        problem = f"names {store.path}, which is damaged or has a different password"
        raise SecuritySettingError(store.setting, problem) from None


def _certificate_pem(certificate: object) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import Certificate

    assert isinstance(certificate, Certificate)
    return certificate.public_bytes(Encoding.PEM).decode()


def _write(folder: Path, data: bytes) -> Path:
    path = folder / secrets.token_hex(8)
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path
