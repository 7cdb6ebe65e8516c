"""TLS and SASL by Kafka's names: those of the Java client, which Spark users write, and those of librdkafka.

A setting that would make the connection safer or somebody else's, and that we cannot honour, is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from barnabas.client.security.catalogue import PREFIXES, PROTOCOL, REFUSED, UNDERSTOOD, WITHOUT_EFFECT
from barnabas.client.security.identity import parse_sasl
from barnabas.client.security.references import resolve
from barnabas.client.security.settings import (
    Protocol,
    Secret,
    Security,
    SecuritySettingError,
    Store,
    Tls,
    TokenProvider,
)
from barnabas.client.security.tls import VERSIONS

_STORE_TYPES = ("", "jks", "pkcs12", "pem")


def is_security_setting(name: str) -> bool:
    return name == PROTOCOL or name in UNDERSTOOD or name.startswith(PREFIXES)


def parse_security(
    given: Mapping[str, str], token: TokenProvider | None = None, *, references: bool = False
) -> Security:
    """The security that settings ask for; other settings are left alone. `token` is for OAUTHBEARER.

    `references`: look up `${env:...}` and `${file:...}`. Not for settings that somebody else may have written.
    """
    asked = {name: value for name, value in given.items() if is_security_setting(name)}
    for name in asked:
        check_security_setting(name)
    settings = {name: resolve(name, value, trusted=references) for name, value in asked.items()}
    protocol = _protocol(settings)
    tls = parse_tls(settings) if protocol.has_tls else Tls()
    sasl = parse_sasl(settings, token) if protocol.has_sasl else None
    return Security.of(protocol, tls, sasl)


def check_security_setting(name: str) -> None:
    if name in REFUSED:
        raise SecuritySettingError(name, f"is not supported: {REFUSED[name]}")
    if name in UNDERSTOOD or name.startswith(WITHOUT_EFFECT):
        return
    near = difflib.get_close_matches(name, UNDERSTOOD, n=1)
    raise SecuritySettingError(name, f"is not known; did you mean {near[0]}?" if near else "is not known")


def _protocol(settings: Mapping[str, str]) -> Protocol:
    word = settings.get(PROTOCOL)
    if word is None:
        # Kafka would talk in the clear and without a name, and say nothing.
        for name in settings:
            if name in UNDERSTOOD and name.startswith(PREFIXES):
                raise SecuritySettingError(
                    name, f"has no effect unless {PROTOCOL} says SSL, SASL_PLAINTEXT or SASL_SSL"
                )
        return Protocol.PLAINTEXT
    try:
        return Protocol(word.strip().upper())
    except ValueError:
        raise SecuritySettingError(PROTOCOL, f"must be one of {', '.join(Protocol)}, not {word!r}") from None


def parse_tls(settings: Mapping[str, str]) -> Tls:
    certificate, key = _own_certificate(settings)
    return Tls(
        authorities=_one_of(settings, _authorities(settings)),
        certificate=certificate,
        key=key,
        key_password=_secret(settings, "ssl.key.password"),
        check_host=_checks_host(settings),
        check_certificate=_flag(settings, "enable.ssl.certificate.verification"),
        versions=_versions(settings),
        ciphers=settings.get("ssl.cipher.suites") or None,
    )


def _authorities(settings: Mapping[str, str]) -> list[Store | None]:
    _check_type(settings, "ssl.truststore.type")
    return [
        _file(settings, "ssl.truststore.location", "ssl.truststore.password"),
        _text(settings, "ssl.truststore.certificates"),
        _file(settings, "ssl.ca.location"),
        _text(settings, "ssl.ca.pem"),
    ]


def _own_certificate(settings: Mapping[str, str]) -> tuple[Store | None, Store | None]:
    """A store with both, or the certificate (and its chain) and the key apart."""
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
        raise SecuritySettingError(
            key.setting, "is given without a certificate: see ssl.certificate.location"
        )
    if chain is not None and key is None:
        raise SecuritySettingError(chain.setting, "is given without its key: see ssl.key.location")
    return chain, key


def _one_of(settings: Mapping[str, str], stores: list[Store | None]) -> Store | None:
    found = [store for store in stores if store is not None]
    if len(found) > 1:
        raise SecuritySettingError(
            found[0].setting, f"and {found[1].setting} exclude each other: give one of them"
        )
    return found[0] if found else None


def _file(settings: Mapping[str, str], name: str, password: str | None = None) -> Store | None:
    path = settings.get(name, "").strip()
    if not path:
        return None
    return Store(name, path=path, password=_secret(settings, password) if password else None)


def _text(settings: Mapping[str, str], name: str) -> Store | None:
    text = settings.get(name, "").strip()
    # Where a file has one line per setting, line ends are written as \n.
    return Store(name, text=Secret(text.replace("\\n", "\n"))) if text else None


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
        raise SecuritySettingError(name, f"must be https, or nothing to accept any host name, not {word!r}")
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
