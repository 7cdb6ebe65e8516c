"""Client identity (`principal`, `context`, `authn`, `tls`), authorization (`authz`) and client quotas (`quotas`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.security.context import SELF as SELF
    from barnabas.security.context import RequestContext as RequestContext
    from barnabas.security.context import of_connection as of_connection
    from barnabas.security.context import of_envelope as of_envelope
    from barnabas.security.endpoints import WEBHOOKS_VARIABLE as WEBHOOKS_VARIABLE
    from barnabas.security.endpoints import is_this_machine as is_this_machine
    from barnabas.security.endpoints import problem_with as problem_with
    from barnabas.security.principal import ANONYMOUS as ANONYMOUS
    from barnabas.security.principal import BROKER as BROKER
    from barnabas.security.principal import USER as USER
    from barnabas.security.principal import Principal as Principal
    from barnabas.security.principal import deserialized as deserialized
    from barnabas.security.principal import serialized as serialized
else:
    __getattr__ = lazy_exports(__name__)
