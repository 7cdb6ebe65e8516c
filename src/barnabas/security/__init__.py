"""Client identity (`principal`, `context`, `authn`, `tls`), authorization (`authz`) and client quotas (`quotas`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.security.context import SELF, RequestContext, of_connection, of_envelope
    from barnabas.security.endpoints import WEBHOOKS_VARIABLE, is_this_machine, problem_with
    from barnabas.security.principal import ANONYMOUS, BROKER, USER, Principal, deserialized, serialized
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "context": "RequestContext SELF of_connection of_envelope",
            "endpoints": "WEBHOOKS_VARIABLE is_this_machine problem_with",
            "principal": "ANONYMOUS BROKER Principal USER deserialized serialized",
        },
    )

__all__ = [
    "ANONYMOUS",
    "BROKER",
    "SELF",
    "USER",
    "WEBHOOKS_VARIABLE",
    "Principal",
    "RequestContext",
    "deserialized",
    "is_this_machine",
    "of_connection",
    "of_envelope",
    "problem_with",
    "serialized",
]
