"""TLS and SASL by Kafka's names: those of the Java client, which Spark users write, and those of librdkafka.

A setting that would make the connection safer or lead it elsewhere, and that we cannot honour, is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from barnabas.client.security.catalogue import PREFIXES, PROTOCOL, REFUSED, UNDERSTOOD, WITHOUT_EFFECT
from barnabas.client.security.identity import parse_sasl
from barnabas.client.security.references import resolve
from barnabas.client.security.settings import Protocol, Security, TokenProvider
from barnabas.security.secret import SecuritySettingError
from barnabas.security.tls.settings import Tls, parse_tls


def is_security_setting(name: str) -> bool:
    return name == PROTOCOL or name in UNDERSTOOD or name.startswith(PREFIXES)


def parse_security(
    given: Mapping[str, str], token: TokenProvider | None = None, *, references: bool = False
) -> Security:
    """The security that settings ask for; other settings are left alone. `token` is for OAUTHBEARER.

    `references`: look up `${env:...}` and `${file:...}`. Not for settings of unknown origin.
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
