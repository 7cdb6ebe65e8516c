"""Authentication: SASL mechanisms, credentials, LDAP, JAAS files, delegation tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.security.authn.credentials import (
        DelegationToken,
        ScramCredential,
        ScramMechanism,
        Secret,
        SecuritySettingError,
    )
    from barnabas.security.authn.jaas import SETTING, LoginModule, parse_jaas
    from barnabas.security.authn.kerberos_names import parse_rules
    from barnabas.security.authn.scram import (
        MAX_ITERATIONS,
        MIN_ITERATIONS,
        SALT_BYTES,
        client_key,
        credential_from_salted,
        new_credential,
        salted_password,
        server_key,
        stored_key,
    )
    from barnabas.security.authn.tokens import TokenSecrets, is_concerned, is_expired, is_owner_or_renewer
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "credentials": "DelegationToken ScramCredential ScramMechanism Secret SecuritySettingError",
            "jaas": "LoginModule SETTING parse_jaas",
            "kerberos_names": "parse_rules",
            "scram": (
                "MAX_ITERATIONS MIN_ITERATIONS SALT_BYTES client_key credential_from_salted new_credential "
                "salted_password server_key stored_key"
            ),
            "tokens": "TokenSecrets is_concerned is_expired is_owner_or_renewer",
        },
    )

__all__ = [
    "MAX_ITERATIONS",
    "MIN_ITERATIONS",
    "SALT_BYTES",
    "SETTING",
    "DelegationToken",
    "LoginModule",
    "ScramCredential",
    "ScramMechanism",
    "Secret",
    "SecuritySettingError",
    "TokenSecrets",
    "client_key",
    "credential_from_salted",
    "is_concerned",
    "is_expired",
    "is_owner_or_renewer",
    "new_credential",
    "parse_jaas",
    "parse_rules",
    "salted_password",
    "server_key",
    "stored_key",
]
