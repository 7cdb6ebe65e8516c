"""TLS and SASL of the client. `parse_security` reads settings, `Guard` applies them to connections.

settings        typed settings; secrets are masked in repr
parsing         settings by Kafka's names (Java client, librdkafka); references `${env:NAME}`, `${file:PATH:KEY}`
identity        SASL settings and JAAS
tls             TLS context, explanation of handshake errors
scram           SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802)
tokens          token sources of OAUTHBEARER
session         SASL exchange and re-authentication (KIP-368)
guard           PLAIN and OAUTHBEARER; state shared by the connections of a client
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.security.guard import NO_GUARD, Guard
    from barnabas.client.security.identity import parse_sasl
    from barnabas.client.security.parsing import (
        VARIABLE,
        check_security_setting,
        is_security_setting,
        parse_security,
        read_properties,
        reference_to,
        resolve,
    )
    from barnabas.client.security.settings import (
        NO_PASSWORD,
        PLAINTEXT,
        UNDERSTOOD,
        ClientSecurity,
        Mechanism,
        SaslSettings,
        SecurityProtocol,
    )
    from barnabas.client.security.tls import tls_context
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "guard": "Guard NO_GUARD",
            "identity": "parse_sasl",
            "parsing": (
                "VARIABLE check_security_setting is_security_setting parse_security read_properties reference_to "
                "resolve"
            ),
            "settings": "ClientSecurity Mechanism NO_PASSWORD PLAINTEXT SaslSettings SecurityProtocol UNDERSTOOD",
            "tls": "tls_context",
        },
    )

__all__ = [
    "NO_GUARD",
    "NO_PASSWORD",
    "PLAINTEXT",
    "UNDERSTOOD",
    "VARIABLE",
    "ClientSecurity",
    "Guard",
    "Mechanism",
    "SaslSettings",
    "SecurityProtocol",
    "check_security_setting",
    "is_security_setting",
    "parse_sasl",
    "parse_security",
    "read_properties",
    "reference_to",
    "resolve",
    "tls_context",
]
