"""The parts of a TLS context that both sides have: versions, ciphers, whom to trust, who we are."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from barnabas.security.secret import Secret, SecuritySettingError
from barnabas.security.tls.settings import Tls
from barnabas.security.tls.stores import Store, as_pem_file, authorities_of

_VERSIONS = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}


def limit_versions(context: ssl.SSLContext, versions: tuple[str, ...]) -> None:
    if versions:
        chosen = sorted(_VERSIONS[version] for version in versions)
        context.minimum_version, context.maximum_version = chosen[0], chosen[-1]


def set_ciphers(context: ssl.SSLContext, ciphers: str) -> None:
    """`ciphers` has OpenSSL's names (`ciphers.suites_of`)."""
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError:
        raise SecuritySettingError(
            "ssl.cipher.suites", "has no cipher that OpenSSL knows; `openssl ciphers -v` lists their names"
        ) from None


def trust(context: ssl.SSLContext, store: Store) -> None:
    if store.path is not None and Path(store.path).is_dir():
        context.load_verify_locations(capath=store.path)
        return
    try:
        context.load_verify_locations(cadata=authorities_of(store))
    except ssl.SSLError:
        where = f"names {store.path}, which" if store.path else "has a text that"
        raise SecuritySettingError(store.setting, f"{where} holds no certificate that can be read") from None


def identify(context: ssl.SSLContext, tls: Tls, certificate: Store) -> None:
    """Give this side a certificate, and its key from the same or from another store."""
    with tempfile.TemporaryDirectory(prefix="barnabas-tls-") as folder:
        ours = as_pem_file(certificate, Path(folder))
        key = ours if tls.key is None else as_pem_file(tls.key, Path(folder))
        password = _Password(tls.key or certificate, key.password or _text_of(tls.key_password))
        try:
            context.load_cert_chain(ours.path, key.path, password)
        except ssl.SSLError as error:
            raise _unusable(password, error) from None


class _Password:
    """Answers OpenSSL, which would ask on the terminal otherwise, where nobody may be."""

    def __init__(self, store: Store, text: str | None) -> None:
        self.store = store
        self.was_asked_for = False
        self._text = text

    def __call__(self) -> str:
        self.was_asked_for = True
        if self._text is None:
            problem = f"is missing: the key that {self.store.setting} names is encrypted"
            raise SecuritySettingError("ssl.key.password", problem)
        return self._text


def _text_of(secret: Secret | None) -> str | None:
    return None if secret is None else secret.text


def _unusable(password: _Password, error: ssl.SSLError) -> SecuritySettingError:
    setting = password.store.setting
    if error.reason == "KEY_VALUES_MISMATCH":
        return SecuritySettingError(setting, "has a key that does not belong to the certificate")
    if password.was_asked_for:
        return SecuritySettingError("ssl.key.password", f"does not open the key that {setting} names")
    return SecuritySettingError(setting, "must hold a certificate and its private key, both as PEM")
