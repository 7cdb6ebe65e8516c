"""A TLS context from settings, and what a handshake that failed means for whoever made them."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from barnabas.client.security.settings import Secret, SecuritySettingError, Store, Tls
from barnabas.client.security.stores import as_pem_file, authorities_of

_VERSIONS = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}
VERSIONS = tuple(_VERSIONS)

# OpenSSL's numbers for what is wrong with a certificate.
_EXPIRED = (9, 10)
_UNTRUSTED = (2, 18, 19, 20, 21)
_OTHER_HOST = (62, 64)

# OpenSSL's words for what the other side said or did.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE")
_OUR_CERTIFICATE = (
    "CERTIFICATE_REQUIRED",
    "HANDSHAKE_FAILURE",
    "BAD_CERTIFICATE",
    "UNKNOWN_CA",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
)


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Reads the files that the settings name: SecuritySettingError for one that is missing or wrong."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_host and tls.check_certificate
    context.verify_mode = ssl.CERT_REQUIRED if tls.check_certificate else ssl.CERT_NONE
    if tls.versions:
        chosen = sorted(_VERSIONS[version] for version in tls.versions)
        context.minimum_version, context.maximum_version = chosen[0], chosen[-1]
    if tls.ciphers is not None:
        _set_ciphers(context, tls.ciphers)
    if tls.authorities is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, tls.authorities)
    if tls.certificate is not None:
        _identify(context, tls, tls.certificate)
    return context


def _set_ciphers(context: ssl.SSLContext, ciphers: str) -> None:
    try:
        context.set_ciphers(ciphers.replace(",", ":"))
    except ssl.SSLError:
        raise SecuritySettingError(
            "ssl.cipher.suites", "has no cipher that OpenSSL knows; `openssl ciphers -v` lists their names"
        ) from None


def _trust(context: ssl.SSLContext, store: Store) -> None:
    if store.path is not None and Path(store.path).is_dir():
        context.load_verify_locations(capath=store.path)
        return
    try:
        context.load_verify_locations(cadata=authorities_of(store))
    except ssl.SSLError:
        where = f"names {store.path}, which" if store.path else "has a text that"
        raise SecuritySettingError(store.setting, f"{where} holds no certificate that can be read") from None


def _identify(context: ssl.SSLContext, tls: Tls, certificate: Store) -> None:
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


def explain_handshake(error: ssl.SSLError, tls: Tls | None) -> str:
    """What to do about it, as the rest of a sentence that begins with the broker's address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error)
    reason = (error.reason or "").upper()
    if reason.endswith(_NOT_TLS):
        return "does not speak TLS on this port: security.protocol must be PLAINTEXT or SASL_PLAINTEXT there"
    if reason.endswith(_OUR_CERTIFICATE):
        if tls is None or tls.certificate is None:
            return "wants a certificate of this client: see ssl.keystore.location"
        return f"does not accept the certificate of this client ({tls.certificate.setting})"
    if "PROTOCOL" in reason or "VERSION" in reason:
        return "speaks no TLS version that this client may: see ssl.enabled.protocols"
    return f"could not agree with this client on TLS: {error.reason or error}"


def _explain_certificate(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _UNTRUSTED:
        return (
            "has a certificate from an authority that is not trusted here: "
            "name that authority's certificate with ssl.truststore.location or ssl.ca.location"
        )
    if error.verify_code in _OTHER_HOST:
        return (
            "has a certificate for another host: connect to the name that is in it, or set "
            "ssl.endpoint.identification.algorithm to nothing"
        )
    if error.verify_code in _EXPIRED:
        return f"has a certificate that is out of date or not yet valid ({error.verify_message})"
    return f"has a certificate that is not accepted: {error.verify_message}"
