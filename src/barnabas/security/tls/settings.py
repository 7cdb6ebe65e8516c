"""TLS settings by the names of Kafka's Java client and brokers, and of librdkafka."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from barnabas.security.authn.credentials import Secret, SecuritySettingError
from barnabas.security.tls.stores import CertificateStore, as_pem_file, authorities_of

VERSIONS = ("tlsv1.2", "tlsv1.3")
_STORE_TYPES = ("", "jks", "pkcs12", "pem")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    authorities: CertificateStore | None = None
    """Authorities of the peer's certificate; None: those of the system."""
    certificate: CertificateStore | None = (
        None  # of this side; clients need one only for brokers with client authentication
    )
    key: CertificateStore | None = None  # private key, if it is not in the same store
    key_password: Secret | None = None
    check_host: bool = True
    check_certificate: bool = True
    versions: tuple[str, ...] = ()  # empty: defaults of the system's OpenSSL
    ciphers: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Files that a context is built from, to detect changes."""
        return files_of(self.certificate, self.key, self.authorities)


def files_of(*stores: CertificateStore | None) -> tuple[str, ...]:
    return tuple(store.path for store in stores if store is not None and store.path is not None)


def parse_tls(settings: Mapping[str, str]) -> TlsSettings:
    certificate, key = _own_certificate(settings)
    return TlsSettings(
        authorities=_one_of(settings, _authorities(settings)),
        certificate=certificate,
        key=key,
        key_password=_secret(settings, "ssl.key.password"),
        check_host=_checks_host(settings),
        check_certificate=_flag(settings, "enable.ssl.certificate.verification"),
        versions=_versions(settings),
        ciphers=settings.get("ssl.cipher.suites") or None,
    )


def _authorities(settings: Mapping[str, str]) -> list[CertificateStore | None]:
    _check_type(settings, "ssl.truststore.type")
    return [
        _file(settings, "ssl.truststore.location", "ssl.truststore.password"),
        _text(settings, "ssl.truststore.certificates"),
        _file(settings, "ssl.ca.location"),
        _text(settings, "ssl.ca.pem"),
    ]


def _own_certificate(settings: Mapping[str, str]) -> tuple[CertificateStore | None, CertificateStore | None]:
    """Return a store with both, or the certificate (with its chain) and the key separately."""
    _check_type(settings, "ssl.keystore.type")
    both = _file(settings, "ssl.keystore.location", "ssl.keystore.password")
    chains = ("ssl.keystore.certificate.chain", "ssl.certificate.pem")
    keys = ("ssl.keystore.key", "ssl.key.pem")
    chain = _one_of(
        settings, [_text(settings, name) for name in chains] + [_file(settings, "ssl.certificate.location")]
    )
    key = _one_of(settings, [_text(settings, name) for name in keys] + [_file(settings, "ssl.key.location")])
    if both is not None:
        _one_of(settings, [both, chain, key])
        return both, None
    if chain is None and key is not None:
        raise SecuritySettingError(key.setting, "is set without a certificate: see ssl.certificate.location")
    if chain is not None and key is None:
        raise SecuritySettingError(chain.setting, "is set without its key: see ssl.key.location")
    return chain, key


def _one_of(settings: Mapping[str, str], stores: list[CertificateStore | None]) -> CertificateStore | None:
    present = [store for store in stores if store is not None]
    if len(present) > 1:
        raise SecuritySettingError(
            present[0].setting, f"and {present[1].setting} are mutually exclusive: set only one of them"
        )
    return present[0] if present else None


def _file(settings: Mapping[str, str], name: str, password: str | None = None) -> CertificateStore | None:
    path = settings.get(name, "").strip()
    if not path:
        return None
    return CertificateStore(name, path=path, password=_secret(settings, password) if password else None)


def _text(settings: Mapping[str, str], name: str) -> CertificateStore | None:
    text = settings.get(name, "").strip()
    # Properties files have one line per setting, so line ends are written as \n.
    return CertificateStore(name, text=Secret(text.replace("\\n", "\n"))) if text else None


def _secret(settings: Mapping[str, str], name: str) -> Secret | None:
    return Secret(settings[name]) if settings.get(name) else None


def _check_type(settings: Mapping[str, str], name: str) -> None:
    word = settings.get(name, "").strip()
    if word.lower() not in _STORE_TYPES:
        raise SecuritySettingError(name, f"must be PEM or PKCS12, not {word!r}")


def _checks_host(settings: Mapping[str, str]) -> bool:
    name = "ssl.endpoint.identification.algorithm"
    word = settings.get(name, "https").strip().lower()
    if word not in ("https", "", "none"):
        raise SecuritySettingError(name, f"must be https, or empty to accept any host name, not {word!r}")
    return word == "https"


def _flag(settings: Mapping[str, str], name: str) -> bool:
    word = settings.get(name, "true").strip().lower()
    if word not in ("true", "false"):
        raise SecuritySettingError(name, f"must be true or false, not {word!r}")
    return word == "true"


def _versions(settings: Mapping[str, str]) -> tuple[str, ...]:
    words = [word.strip() for word in settings.get("ssl.enabled.protocols", "").split(",") if word.strip()]
    for word in words:
        if word.lower() not in VERSIONS:
            raise SecuritySettingError("ssl.enabled.protocols", f"may name TLSv1.2 and TLSv1.3, not {word!r}")
    return tuple(sorted(word.lower() for word in words))


# -- Parts of an SSL context common to clients and servers ---------------------------------------------

_REVOCATION_LIST = "-----BEGIN X509 CRL-----"
_VERSIONS = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}


def limit_versions(context: ssl.SSLContext, versions: tuple[str, ...]) -> None:
    if versions:
        chosen = sorted(_VERSIONS[version] for version in versions)
        context.minimum_version, context.maximum_version = chosen[0], chosen[-1]


def set_ciphers(context: ssl.SSLContext, ciphers: str) -> None:
    """Set the ciphers of TLS 1.2, by OpenSSL's names (`server.suites_of`)."""
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError:
        raise SecuritySettingError(
            "ssl.cipher.suites", "lists no cipher known to OpenSSL; `openssl ciphers -v` prints the names"
        ) from None


def trust(context: ssl.SSLContext, store: CertificateStore) -> None:
    """Trust the authorities of a store. If it contains revocation lists, a certificate is accepted only if a current
    list of its authority is present and does not revoke it."""
    if store.path is not None and Path(store.path).is_dir():
        context.load_verify_locations(capath=store.path)
        if any(Path(store.path).glob("*.r[0-9]*")):  # as `openssl rehash` names revocation lists
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        return
    text = authorities_of(store)
    try:
        if _REVOCATION_LIST in text:
            _load_with_revocations(context, text)
        else:
            context.load_verify_locations(cadata=text)
    except ssl.SSLError:
        where = f"names {store.path}, which" if store.path else "has a text that"
        raise SecuritySettingError(store.setting, f"{where} contains no valid certificate") from None


def _load_with_revocations(context: ssl.SSLContext, text: str) -> None:
    """OpenSSL reads revocation lists only from files."""
    with tempfile.NamedTemporaryFile("w", prefix="barnabas-tls-", suffix=".pem") as file:
        file.write(text)
        file.flush()
        context.load_verify_locations(cafile=file.name)
    if not context.cert_store_stats()["crl"] or not context.cert_store_stats()["x509_ca"]:
        raise ssl.SSLError("no valid certificate or revocation list")
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def identify(context: ssl.SSLContext, tls: TlsSettings, certificate: CertificateStore) -> None:
    """Load this side's certificate, and its key from the same or another store."""
    with tempfile.TemporaryDirectory(prefix="barnabas-tls-") as folder:
        pem_files = as_pem_file(certificate, Path(folder))
        key = pem_files if tls.key is None else as_pem_file(tls.key, Path(folder))
        password = _Password(tls.key or certificate, key.password or _text_of(tls.key_password))
        try:
            context.load_cert_chain(pem_files.path, key.path, password)
        except ssl.SSLError as error:
            raise _unusable(password, error) from None


class _Password:
    """Password callback of OpenSSL, which would otherwise prompt on the terminal."""

    def __init__(self, store: CertificateStore, text: str | None) -> None:
        self.store = store
        self.was_asked_for = False
        self._text = text

    def __call__(self) -> str:
        self.was_asked_for = True
        if self._text is None:
            problem = f"is missing: the key in {self.store.setting} is encrypted"
            raise SecuritySettingError("ssl.key.password", problem)
        return self._text


def _text_of(secret: Secret | None) -> str | None:
    return None if secret is None else secret.text


def _unusable(password: _Password, error: ssl.SSLError) -> SecuritySettingError:
    setting = password.store.setting
    if error.reason == "KEY_VALUES_MISMATCH":
        return SecuritySettingError(setting, "contains a key that does not match the certificate")
    if password.was_asked_for:
        return SecuritySettingError("ssl.key.password", f"does not decrypt the key in {setting}")
    return SecuritySettingError(setting, "must contain a certificate and its private key, both as PEM")
