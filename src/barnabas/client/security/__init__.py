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
    from barnabas.client.security.guard import NO_GUARD as NO_GUARD
    from barnabas.client.security.guard import Guard as Guard
    from barnabas.client.security.identity import parse_sasl as parse_sasl
    from barnabas.client.security.parsing import VARIABLE as VARIABLE
    from barnabas.client.security.parsing import check_security_setting as check_security_setting
    from barnabas.client.security.parsing import is_security_setting as is_security_setting
    from barnabas.client.security.parsing import parse_security as parse_security
    from barnabas.client.security.parsing import read_properties as read_properties
    from barnabas.client.security.parsing import reference_to as reference_to
    from barnabas.client.security.parsing import resolve as resolve
    from barnabas.client.security.settings import NO_PASSWORD as NO_PASSWORD
    from barnabas.client.security.settings import PLAINTEXT as PLAINTEXT
    from barnabas.client.security.settings import UNDERSTOOD as UNDERSTOOD
    from barnabas.client.security.settings import ClientSecurity as ClientSecurity
    from barnabas.client.security.settings import Mechanism as Mechanism
    from barnabas.client.security.settings import SaslSettings as SaslSettings
    from barnabas.client.security.settings import SecurityProtocol as SecurityProtocol
    from barnabas.client.security.tls import tls_context as tls_context
else:
    __getattr__ = lazy_exports(__name__)
