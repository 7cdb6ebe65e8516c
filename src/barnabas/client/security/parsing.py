"""TLS and SASL settings by the names of the Java client (also used by Spark) and of librdkafka.

Unsupported settings that affect security or the destination are rejected, not ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from barnabas.client.security.identity import parse_sasl
from barnabas.client.security.settings import (
    PREFIXES,
    PROTOCOL,
    REFUSED,
    UNDERSTOOD,
    WITHOUT_EFFECT,
    ClientSecurity,
    SecurityProtocol,
    TokenProvider,
)
from barnabas.common.suggestions import closest
from barnabas.config.properties import parse_properties
from barnabas.config.setting import ConfigError
from barnabas.security.authn import SecuritySettingError
from barnabas.security.tls import TlsSettings, parse_tls

# -- References as in Kafka's config providers, so that secrets stay out of queries and plans ----------

VARIABLE = "BARNABAS_REFERENCES"
_REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")


def resolve(setting: str, value: str, *, trusted: bool = False) -> str:
    """The value with all references resolved."""

    def found(match: re.Match[str]) -> str:
        kind, where = match.groups()
        if not trusted and kind not in _allowed():
            problem = (
                f"refers to {match.group()}, which is not resolved for settings from a program: set the value "
                f"itself, or set {VARIABLE}=env,file in the environment of the process that connects"
            )
            raise SecuritySettingError(setting, problem)
        return _variable(setting, where) if kind == "env" else _in_file(setting, where)

    return _REFERENCE.sub(found, value)


def reference_to(path: Path, key: str) -> str:
    return f"${{file:{path.resolve()}:{key}}}"


def _allowed() -> set[str]:
    return {kind.strip() for kind in os.environ.get(VARIABLE, "").split(",")}


def _variable(setting: str, name: str) -> str:
    if name not in os.environ:
        raise SecuritySettingError(setting, f"names the environment variable {name}, which is not set")
    return os.environ[name]


def _in_file(setting: str, where: str) -> str:
    path, _, key = where.rpartition(":")
    values = read_properties(setting, Path(path))
    if key not in values:
        raise SecuritySettingError(setting, f"names {key!r} of {path}, which is not in that file")
    return values[key]


def read_properties(setting: str, path: Path) -> dict[str, str]:
    """A properties file; `setting` is what named it."""
    try:
        return parse_properties(path.read_text())
    except OSError as error:
        raise SecuritySettingError(setting, f"names {path}, which cannot be read: {error.strerror}") from None
    except (ConfigError, UnicodeDecodeError):
        raise SecuritySettingError(setting, f"names {path}, which is not a valid properties file") from None


def is_security_setting(name: str) -> bool:
    return name == PROTOCOL or name in UNDERSTOOD or name.startswith(PREFIXES)


def parse_security(
    given: Mapping[str, str], token: TokenProvider | None = None, *, references: bool = False
) -> ClientSecurity:
    """Parse security settings; other settings are ignored. `token` is for OAUTHBEARER.

    `references`: look up `${env:...}` and `${file:...}`. Not for settings of unknown origin.
    """
    recognized = {name: value for name, value in given.items() if is_security_setting(name)}
    for name in recognized:
        check_security_setting(name)
    settings = {name: resolve(name, value, trusted=references) for name, value in recognized.items()}
    protocol = _protocol(settings)
    tls = parse_tls(settings) if protocol.has_tls else TlsSettings()
    sasl = parse_sasl(settings, token) if protocol.has_sasl else None
    return ClientSecurity.of(protocol, tls, sasl)


def check_security_setting(name: str) -> None:
    if name in REFUSED:
        raise SecuritySettingError(name, f"is not supported: {REFUSED[name]}")
    if name in UNDERSTOOD or name.startswith(WITHOUT_EFFECT):
        return
    match = closest(name, UNDERSTOOD)
    raise SecuritySettingError(
        name, f"is not known; did you mean {match}?" if match is not None else "is not known"
    )


def _protocol(settings: Mapping[str, str]) -> SecurityProtocol:
    word = settings.get(PROTOCOL)
    if word is None:
        # Kafka would silently connect in plaintext without authentication.
        for name in settings:
            if name in UNDERSTOOD and name.startswith(PREFIXES):
                raise SecuritySettingError(
                    name, f"has no effect unless {PROTOCOL} says SSL, SASL_PLAINTEXT or SASL_SSL"
                )
        return SecurityProtocol.PLAINTEXT
    try:
        return SecurityProtocol(word.strip().upper())
    except ValueError:
        raise SecuritySettingError(
            PROTOCOL, f"must be one of {', '.join(SecurityProtocol)}, not {word!r}"
        ) from None
