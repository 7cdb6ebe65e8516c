"""What is wanted of TLS, by Kafka's names: those of the Java client and of brokers, and those of librdkafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.security.secret import Secret, SecuritySettingError
from barnabas.security.tls.stores import Store

VERSIONS = ("tlsv1.2", "tlsv1.3")
_STORE_TYPES = ("", "jks", "pkcs12", "pem")


@dataclass(frozen=True, slots=True)
class Tls:
    authorities: Store | None = None
    """Who may have signed the other side's certificate; None: whom the system trusts."""
    certificate: Store | None = None  # ours; a client needs one for brokers that ask for it
    key: Store | None = None  # its key, where that is not in the same store
    key_password: Secret | None = None
    check_host: bool = True
    check_certificate: bool = True
    versions: tuple[str, ...] = ()  # none: what the system's OpenSSL allows
    ciphers: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """What a context is made of, to notice when it changes."""
        return files_of(self.certificate, self.key, self.authorities)


def files_of(*stores: Store | None) -> tuple[str, ...]:
    return tuple(store.path for store in stores if store is not None and store.path is not None)


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
