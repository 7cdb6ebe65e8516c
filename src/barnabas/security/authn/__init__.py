"""Authentication: SASL mechanisms, credentials, LDAP, JAAS files, delegation tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.security.authn.credentials import DelegationToken as DelegationToken
    from barnabas.security.authn.credentials import ScramCredential as ScramCredential
    from barnabas.security.authn.credentials import ScramMechanism as ScramMechanism
    from barnabas.security.authn.credentials import Secret as Secret
    from barnabas.security.authn.credentials import SecuritySettingError as SecuritySettingError
    from barnabas.security.authn.jaas import SETTING as SETTING
    from barnabas.security.authn.jaas import LoginModule as LoginModule
    from barnabas.security.authn.jaas import parse_jaas as parse_jaas
    from barnabas.security.authn.kerberos_names import parse_rules as parse_rules
    from barnabas.security.authn.scram import MAX_ITERATIONS as MAX_ITERATIONS
    from barnabas.security.authn.scram import MIN_ITERATIONS as MIN_ITERATIONS
    from barnabas.security.authn.scram import SALT_BYTES as SALT_BYTES
    from barnabas.security.authn.scram import client_key as client_key
    from barnabas.security.authn.scram import credential_from_salted as credential_from_salted
    from barnabas.security.authn.scram import new_credential as new_credential
    from barnabas.security.authn.scram import salted_password as salted_password
    from barnabas.security.authn.scram import server_key as server_key
    from barnabas.security.authn.scram import stored_key as stored_key
    from barnabas.security.authn.tokens import TokenSecrets as TokenSecrets
    from barnabas.security.authn.tokens import is_concerned as is_concerned
    from barnabas.security.authn.tokens import is_expired as is_expired
    from barnabas.security.authn.tokens import is_owner_or_renewer as is_owner_or_renewer
else:
    __getattr__ = lazy_exports(__name__)
