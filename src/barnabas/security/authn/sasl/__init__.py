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
    from barnabas.security.authn.sasl.gssapi import Acceptor as Acceptor
    from barnabas.security.authn.sasl.gssapi import GssapiExchange as GssapiExchange
    from barnabas.security.authn.sasl.login import NOTHING_OFFERED as NOTHING_OFFERED
    from barnabas.security.authn.sasl.login import Authenticated as Authenticated
    from barnabas.security.authn.sasl.login import AuthenticationFailedError as AuthenticationFailedError
    from barnabas.security.authn.sasl.login import Challenge as Challenge
    from barnabas.security.authn.sasl.login import Offer as Offer
    from barnabas.security.authn.sasl.login import Offered as Offered
    from barnabas.security.authn.sasl.login import OutOfOrderError as OutOfOrderError
    from barnabas.security.authn.sasl.login import SaslLogin as SaslLogin
    from barnabas.security.authn.sasl.login import SaslState as SaslState
    from barnabas.security.authn.sasl.login import ServerExchange as ServerExchange
    from barnabas.security.authn.sasl.login import UnsupportedMechanismError as UnsupportedMechanismError
    from barnabas.security.authn.sasl.login import message_limit as message_limit
    from barnabas.security.authn.sasl.oauthbearer import OAuthBearerExchange as OAuthBearerExchange
    from barnabas.security.authn.sasl.plain import NO_USERS as NO_USERS
    from barnabas.security.authn.sasl.plain import ListedUsers as ListedUsers
    from barnabas.security.authn.sasl.plain import PasswordCheck as PasswordCheck
    from barnabas.security.authn.sasl.plain import PlainExchange as PlainExchange
    from barnabas.security.authn.sasl.plain import listed_users as listed_users
    from barnabas.security.authn.sasl.scram import ScramExchange as ScramExchange
    from barnabas.security.authn.sasl.scram import ScramUsers as ScramUsers
    from barnabas.security.authn.sasl.scram_users import StoredTokens as StoredTokens
    from barnabas.security.authn.sasl.scram_users import StoredUsers as StoredUsers
else:
    __getattr__ = lazy_exports(__name__)
