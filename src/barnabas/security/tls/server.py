"""TLS of one listener: what its settings ask for, the context that comes of it, and why a client's handshake failed."""

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
    Tls,
    files_of,
    identify,
    limit_versions,
    parse_tls,
    set_ciphers,
    trust,
)
from barnabas.security.tls.stores import Store

# -- Certificates by the name that a client asks for (SNI, RFC 6066): one listener under several names -

SNI = "barnabas.ssl.sni.keystores"


def named_stores(items: Iterable[str], password: Secret | None) -> tuple[tuple[str, Store], ...]:
    """Read `NAME=FILE`; the password is that of the key store of all other names."""
    return tuple(_named_store(item, password) for item in items)


def _named_store(item: str, password: Secret | None) -> tuple[str, Store]:
    name, _, path = (part.strip() for part in item.partition("="))
    if not name or not path or "*" in name.removeprefix("*."):
        raise SecuritySettingError(
            SNI, f"has {item!r}: write NAME=FILE, for instance broker.example.com=/etc/b.pem"
        )
    return name.lower(), Store(SNI, path, password=password)


class ByName:
    """Called by OpenSSL, in the thread of a handshake, with the name that the client asks for."""

    def __init__(self, contexts: Mapping[str, ssl.SSLContext]) -> None:
        self._contexts = contexts

    def __call__(self, tls: ssl.SSLObject, name: str | None, default: ssl.SSLContext) -> None:
        """Clients that ask for another name, or for none, get the certificate of the listener."""
        wanted = (name or "").lower()
        chosen = self._contexts.get(wanted) or self._contexts.get(f"*.{wanted.partition('.')[2]}")
        if chosen is not None:
            tls.context = chosen


# -- Cipher suites by the names of Java and of OpenSSL -------------------------------------------------

TLS_1_3 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})


class Suites(NamedTuple):
    """A list of suites by the version that they belong to."""

    old: str  # for OpenSSL; those of TLS 1.2
    new: frozenset[str]  # those of TLS 1.3


def suites_of(text: str) -> Suites:
    """Read a list that is separated by commas or colons."""
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
    """A value: two that are equal make the same context, as long as the files do not change."""

    listener: str
    tls: Tls
    client_auth: str = "none"
    mapping_rules: str = "DEFAULT"
    by_name: tuple[tuple[str, Store], ...] = ()  # other certificates, for clients that ask for this name

    @property
    def files(self) -> tuple[str, ...]:
        """What the context is made of, to notice when it changes."""
        return (*self.tls.files, *files_of(*(store for _, store in self.by_name)))


def listener_tls(listener: str, setting: Callable[[str], Any]) -> ListenerTls:
    """`setting` finds what is set for it (`BrokerConfig.of_listener`); ConfigError for what contradicts itself."""
    texts = {name: text for name in _READ if (text := format_value(setting(name))) is not None}
    try:
        tls = parse_tls(texts)
        if tls.certificate is None:
            problem = "is missing: a listener that speaks TLS needs a certificate and its key"
            raise SecuritySettingError("ssl.keystore.location", problem)
        if texts["ssl.client.auth"] != "none" and tls.authorities is None:
            asked = texts["ssl.client.auth"]
            problem = f"is missing: with ssl.client.auth={asked} it says whose certificates clients may have"
            raise SecuritySettingError("ssl.truststore.location", problem)
        rules = texts["ssl.principal.mapping.rules"]
        MappingRules.parse(rules)
        by_name = named_stores(setting(SNI), tls.certificate.password)
    except SecuritySettingError as error:
        raise of_listener(listener, error) from None
    return ListenerTls(listener, tls, texts["ssl.client.auth"], rules, by_name)


def of_listener(listener: str, error: SecuritySettingError) -> ConfigError:
    return ConfigError(f"Listener {listener}: {error}")


def server_context(wanted: ListenerTls) -> ssl.SSLContext:
    """Reads the files that the settings name: ConfigError for one that is missing or wrong."""
    try:
        context = _context(wanted)
        if wanted.by_name:
            others = {
                name: _context(replace(wanted, tls=replace(wanted.tls, certificate=store, key=None)))
                for name, store in wanted.by_name
            }
            context.sni_callback = ByName(others)
        return context
    except SecuritySettingError as error:
        raise of_listener(wanted.listener, error) from None


def https_context(service: str, tls: Tls, client_auth: str = "none") -> ssl.SSLContext:
    """For a service beside brokers. SecuritySettingError or ConfigError for settings and files that are none."""
    if client_auth not in _CLIENT_AUTH:
        raise SecuritySettingError(
            "ssl.client.auth", f"is one of {', '.join(_CLIENT_AUTH)}, not {client_auth!r}"
        )
    if client_auth != "none" and tls.authorities is None:
        problem = (
            f"is missing: with ssl.client.auth={client_auth} it says whose certificates clients may have"
        )
        raise SecuritySettingError("ssl.truststore.location", problem)
    if tls.certificate is None:
        raise SecuritySettingError(
            "ssl.keystore.location", "is missing: https needs a certificate and its key"
        )
    return server_context(ListenerTls(f"of {service}", tls, client_auth))


def _context(wanted: ListenerTls) -> ssl.SSLContext:
    tls = wanted.tls
    assert tls.certificate is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client that asks for new keys again and again would keep the loop busy. A session that is resumed would keep an
    # identity whose certificate is no longer accepted.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    limit_versions(context, tls.versions)
    if tls.ciphers is not None:
        _limit_ciphers(context, tls.ciphers)
    identify(context, tls, tls.certificate)
    context.verify_mode = _CLIENT_AUTH[wanted.client_auth]
    if tls.authorities is not None and context.verify_mode is not ssl.CERT_NONE:
        trust(context, tls.authorities)
    return context


def _limit_ciphers(context: ssl.SSLContext, text: str) -> None:
    """As in Java a version without a suite in the list is not spoken."""
    suites = suites_of(text)
    if suites.new and suites.new != TLS_1_3:
        raise SecuritySettingError(
            "ssl.cipher.suites",
            f"names some suites of TLS 1.3 and not all; Python cannot leave one out: name "
            f"{', '.join(sorted(TLS_1_3))}, or none of them and so no TLS 1.3",
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
    """The client's certificate is valid, and no rule says who that is."""


class Identify:
    """Who a client is by its certificate (`ssl.principal.mapping.rules`)."""

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


# OpenSSL's words for what went wrong, and ours.
_EXPLAINED = {
    "HTTP_REQUEST": "the client does not speak TLS: its security.protocol must be SSL or SASL_SSL on this port",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS: its security.protocol must be SSL or SASL_SSL on this port",
    "UNKNOWN_CA": "the client does not trust the authority of this broker's certificate: put it into its trust store",
    "BAD_CERTIFICATE": "the client does not accept this broker's certificate (is it for the name that the client "
    "connects to?)",
    "CERTIFICATE_UNKNOWN": "the client does not accept this broker's certificate (is its authority in the client's "
    "trust store, and is it for the name that the client connects to?)",
    "CERTIFICATE_EXPIRED": "the client says that this broker's certificate is out of date",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate, and ssl.client.auth is required",
    "NO_SHARED_CIPHER": "the client and this broker have no cipher in common (ssl.cipher.suites)",
    "UNSUPPORTED_PROTOCOL": "the client speaks none of the versions of TLS in ssl.enabled.protocols",
    "PROTOCOL_VERSION": "the client speaks none of the versions of TLS in ssl.enabled.protocols",
}


def explain_client(error: ssl.SSLError) -> str:
    """What a failed handshake says about the client, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    reason = error.reason or ""
    return next((words for end, words in _EXPLAINED.items() if reason.endswith(end)), reason or str(error))
