"""TLS of a listener: its settings, its SSL context, and explanations of failed handshakes."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from barnabas.config.setting import ConfigError, format_value
from barnabas.security.authn.credentials import Secret, SecuritySettingError
from barnabas.security.principal import USER, Principal
from barnabas.security.tls.mapping_rules import MappingRules, NoRuleAppliesError
from barnabas.security.tls.settings import (
    TlsSettings,
    files_of,
    identify,
    limit_versions,
    parse_tls,
    set_ciphers,
    trust,
)
from barnabas.security.tls.stores import CertificateStore

# -- Certificates by server name (SNI, RFC 6066): one listener with several names ----------------------

SNI = "barnabas.ssl.sni.keystores"


def named_stores(items: Iterable[str], password: Secret | None) -> tuple[tuple[str, CertificateStore], ...]:
    """Parse items `NAME=FILE`; the password is that of the listener's key store."""
    return tuple(_named_store(item, password) for item in items)


def _named_store(item: str, password: Secret | None) -> tuple[str, CertificateStore]:
    name, _, path = (part.strip() for part in item.partition("="))
    if not name or not path or "*" in name.removeprefix("*."):
        raise SecuritySettingError(
            SNI, f"has {item!r}: write NAME=FILE, for instance broker.example.com=/etc/b.pem"
        )
    return name.lower(), CertificateStore(SNI, path, password=password)


class ByName:
    """SNI callback of OpenSSL; runs on the thread of the handshake."""

    def __init__(self, contexts: Mapping[str, ssl.SSLContext]) -> None:
        self._contexts = contexts

    def __call__(self, tls: ssl.SSLObject, name: str | None, default: ssl.SSLContext) -> None:
        """Select the certificate for the requested name; the listener's for an unknown or missing name."""
        requested = (name or "").lower()
        chosen = self._contexts.get(requested) or self._contexts.get(f"*.{requested.partition('.')[2]}")
        if chosen is not None:
            tls.context = chosen


# -- Cipher suites by their names in Java and in OpenSSL -----------------------------------------------

TLS_1_3 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})


class Suites(NamedTuple):
    """Cipher suites by TLS version."""

    old: str  # of TLS 1.2, as OpenSSL's cipher list
    new: frozenset[str]  # of TLS 1.3


def suites_of(text: str) -> Suites:
    """Parse a list separated by commas or colons."""
    names = [name.strip() for name in text.replace(":", ",").split(",") if name.strip()]
    new = frozenset(name for name in names if name in TLS_1_3)
    return Suites(":".join(_openssl_name(name) for name in names if name not in TLS_1_3), new)


def _openssl_name(name: str) -> str:
    if not name.startswith("TLS_"):
        return name
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    if "CHACHA20" in cipher:
        cipher = cipher.removesuffix("_SHA256")
    return "-".join(part.replace("_", "-") for part in (exchange, cipher) if part not in ("", "RSA"))


_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_READ = (
    "ssl.cipher.suites", "ssl.client.auth", "ssl.enabled.protocols", "ssl.key.password",
    "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.truststore.type",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """TLS settings of a listener. Equal values yield equal contexts unless the files change."""

    listener: str
    tls: TlsSettings
    client_auth: str = "none"
    mapping_rules: str = "DEFAULT"
    by_name: tuple[tuple[str, CertificateStore], ...] = ()  # further certificates by server name

    @property
    def files(self) -> tuple[str, ...]:
        """Files that the context is built from, to detect changes."""
        return (*self.tls.files, *files_of(*(store for _, store in self.by_name)))


def listener_tls(listener: str, setting: Callable[[str], Any]) -> ListenerTls:
    """Read the TLS settings of a listener with `setting` (`BrokerConfig.of_listener`); ConfigError if inconsistent."""
    texts = {name: text for name in _READ if (text := format_value(setting(name))) is not None}
    try:
        tls = parse_tls(texts)
        if tls.certificate is None:
            problem = "is missing: a TLS listener needs a certificate and its key"
            raise SecuritySettingError("ssl.keystore.location", problem)
        if texts["ssl.client.auth"] != "none" and tls.authorities is None:
            client_auth = texts["ssl.client.auth"]
            problem = (
                f"is missing: ssl.client.auth={client_auth} needs the authorities of client certificates"
            )
            raise SecuritySettingError("ssl.truststore.location", problem)
        rules = texts["ssl.principal.mapping.rules"]
        MappingRules.parse(rules)
        by_name = named_stores(setting(SNI), tls.certificate.password)
    except SecuritySettingError as error:
        raise of_listener(listener, error) from None
    return ListenerTls(listener, tls, texts["ssl.client.auth"], rules, by_name)


def of_listener(listener: str, error: SecuritySettingError) -> ConfigError:
    return ConfigError(f"Listener {listener}: {error}")


def server_context(settings: ListenerTls) -> ssl.SSLContext:
    """Build the context from the configured files; ConfigError for a missing or invalid one."""
    try:
        context = _context(settings)
        if settings.by_name:
            others = {
                name: _context(replace(settings, tls=replace(settings.tls, certificate=store, key=None)))
                for name, store in settings.by_name
            }
            context.sni_callback = ByName(others)
        return context
    except SecuritySettingError as error:
        raise of_listener(settings.listener, error) from None


def https_context(service: str, tls: TlsSettings, client_auth: str = "none") -> ssl.SSLContext:
    """Build the context of an HTTPS service; SecuritySettingError or ConfigError for invalid settings and files."""
    if client_auth not in _CLIENT_AUTH:
        raise SecuritySettingError(
            "ssl.client.auth", f"must be one of {', '.join(_CLIENT_AUTH)}, not {client_auth!r}"
        )
    if client_auth != "none" and tls.authorities is None:
        problem = f"is missing: ssl.client.auth={client_auth} needs the authorities of client certificates"
        raise SecuritySettingError("ssl.truststore.location", problem)
    if tls.certificate is None:
        raise SecuritySettingError(
            "ssl.keystore.location", "is missing: https needs a certificate and its key"
        )
    return server_context(ListenerTls(f"of {service}", tls, client_auth))


def _context(settings: ListenerTls) -> ssl.SSLContext:
    tls = settings.tls
    assert tls.certificate is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Repeated renegotiation would keep the event loop busy. A resumed session would keep an identity whose certificate
    # is no longer accepted.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    limit_versions(context, tls.versions)
    if tls.ciphers is not None:
        _limit_ciphers(context, tls.ciphers)
    identify(context, tls, tls.certificate)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if tls.authorities is not None and context.verify_mode is not ssl.CERT_NONE:
        trust(context, tls.authorities)
    return context


def _limit_ciphers(context: ssl.SSLContext, text: str) -> None:
    """Restrict cipher suites; as in Java, a TLS version without a listed suite is disabled."""
    suites = suites_of(text)
    if suites.new and suites.new != TLS_1_3:
        raise SecuritySettingError(
            "ssl.cipher.suites",
            f"lists only some suites of TLS 1.3, which Python cannot restrict: list all of "
            f"{', '.join(sorted(TLS_1_3))}, or none of them to disable TLS 1.3",
        )
    if suites.old:
        set_ciphers(context, suites.old)
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if not suites.new:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if context.minimum_version > context.maximum_version:
        problem = "has no suite for the versions of ssl.enabled.protocols"
        raise SecuritySettingError("ssl.cipher.suites", problem)


class CertificateRefusedError(ConnectionError):
    """The client's certificate is valid, but no mapping rule applies to it."""


class Identify:
    """Maps the client's certificate to a principal (`ssl.principal.mapping.rules`)."""

    def __init__(self, rules: str) -> None:
        self._rules = MappingRules.parse(rules)

    def __call__(self, tls: ssl.SSLObject) -> Principal | None:
        encoded = tls.getpeercert(binary_form=True)
        if encoded is None:
            return None
        from barnabas.security.tls.mapping_rules import subject_of

        try:
            return Principal(USER, self._rules.name_of(subject_of(encoded)))
        except NoRuleAppliesError as error:
            raise CertificateRefusedError(str(error)) from None


# OpenSSL's reason -> explanation
_EXPLAINED = {
    "HTTP_REQUEST": "the client does not use TLS: its security.protocol must be SSL or SASL_SSL on this port",
    "WRONG_VERSION_NUMBER": "the client does not use TLS: its security.protocol must be SSL or SASL_SSL on this port",
    "UNKNOWN_CA": "the client does not trust the authority of this broker's certificate: add it to its trust store",
    "BAD_CERTIFICATE": "the client does not accept this broker's certificate (is it for the name that the client "
    "connects to?)",
    "CERTIFICATE_UNKNOWN": "the client does not accept this broker's certificate (is its authority in the client's "
    "trust store, and is it for the name that the client connects to?)",
    "CERTIFICATE_EXPIRED": "the client reports that this broker's certificate has expired",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate, but ssl.client.auth is required",
    "NO_SHARED_CIPHER": "the client and this broker have no cipher in common (ssl.cipher.suites)",
    "UNSUPPORTED_PROTOCOL": "the client supports none of the TLS versions in ssl.enabled.protocols",
    "PROTOCOL_VERSION": "the client supports none of the TLS versions in ssl.enabled.protocols",
}


def explain_client(error: ssl.SSLError) -> str:
    """Explain a failed handshake with a client."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    reason = error.reason or ""
    return next((text for end, text in _EXPLAINED.items() if reason.endswith(end)), reason or str(error))
