"""Server side of SASL: mechanisms without I/O, and the login state of a connection.

login        exchange interface of all mechanisms, and the state machine of a connection's authentication
plain        PLAIN (RFC 4616), and the users listed in a JAAS configuration
scram        SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802)
scram_users  SCRAM credentials of users and delegation tokens, and decoys for unknown names
oauthbearer  OAUTHBEARER (RFC 7628); tokens and keys are in `security/jwt`
gssapi       GSSAPI (RFC 4752), with an optional library; name mapping is in `security/authn/kerberos_names`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.security.authn.sasl.gssapi import Acceptor, GssapiExchange
    from barnabas.security.authn.sasl.login import (
        NOTHING_OFFERED,
        Authenticated,
        AuthenticationFailedError,
        Challenge,
        Offer,
        Offered,
        OutOfOrderError,
        SaslLogin,
        SaslState,
        ServerExchange,
        UnsupportedMechanismError,
        message_limit,
    )
    from barnabas.security.authn.sasl.oauthbearer import OAuthBearerExchange
    from barnabas.security.authn.sasl.plain import (
        NO_USERS,
        ListedUsers,
        PasswordCheck,
        PlainExchange,
        listed_users,
    )
    from barnabas.security.authn.sasl.scram import ScramExchange, ScramUsers
    from barnabas.security.authn.sasl.scram_users import StoredTokens, StoredUsers
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "gssapi": "Acceptor GssapiExchange",
            "login": (
                "Authenticated AuthenticationFailedError Challenge NOTHING_OFFERED Offer Offered OutOfOrderError "
                "SaslLogin SaslState ServerExchange UnsupportedMechanismError message_limit"
            ),
            "oauthbearer": "OAuthBearerExchange",
            "plain": "ListedUsers NO_USERS PasswordCheck PlainExchange listed_users",
            "scram": "ScramExchange ScramUsers",
            "scram_users": "StoredTokens StoredUsers",
        },
    )

__all__ = [
    "NOTHING_OFFERED",
    "NO_USERS",
    "Acceptor",
    "Authenticated",
    "AuthenticationFailedError",
    "Challenge",
    "GssapiExchange",
    "ListedUsers",
    "OAuthBearerExchange",
    "Offer",
    "Offered",
    "OutOfOrderError",
    "PasswordCheck",
    "PlainExchange",
    "SaslLogin",
    "SaslState",
    "ScramExchange",
    "ScramUsers",
    "ServerExchange",
    "StoredTokens",
    "StoredUsers",
    "UnsupportedMechanismError",
    "listed_users",
    "message_limit",
]
