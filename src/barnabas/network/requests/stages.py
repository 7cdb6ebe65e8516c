"""The stages of a request, composed when its route is made.

    frame -> authenticate -> decode -> authorize -> admit -> handle -> account -> encode -> mute

The connection frames and mutes, the dispatcher authenticates, decodes and encodes. The others are functions around the
handler, as the rows of the table say; a deployment without authorizer and quotas has none of them: its routes call the
bare handlers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.network.requests.authorize_stage import access_by, authorized
from barnabas.network.requests.brokers_only import brokers_only, is_brokers_only
from barnabas.network.requests.quota_stage import IsBroker, accounted, admitted, exempting, is_charged, nobody
from barnabas.protocol.api import APIS, ApiKey
from barnabas.protocol.schema import Message
from barnabas.security.authz import ALLOW_ALL, AuditLog, Authorizer
from barnabas.security.quotas import NO_QUOTAS, QuotaKind, Quotas

if TYPE_CHECKING:
    from barnabas.network.requests.routes import Handler, HandlerFunction

BEFORE_AUTHENTICATION = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE})
"""The only requests decoded for a client that has not authenticated yet."""


_UNCHARGED = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""Requests that are not charged: the client is not known yet."""


class RequestSecurity(NamedTuple):
    """Authorizer, audit log and quotas of a deployment."""

    authorizer: Authorizer = ALLOW_ALL
    quotas: Quotas = NO_QUOTAS
    audit: AuditLog | None = None
    is_broker: IsBroker = nobody
    """Identifies brokers reliably: their requests do not count against quotas."""


OPEN = RequestSecurity()


def compiled(
    handler: Handler, version: int, security: RequestSecurity
) -> tuple[HandlerFunction, HandlerFunction]:
    """Return the functions of a route: for most requests, and for those of many elements, which are
    authorized in parts.
    """
    bare = handler.function if handler.bare is None else handler.bare
    staged = bare if security == OPEN else _staged(bare, handler, version, security)
    if staged is bare:
        function, in_turns = handler.function, handler.in_turns or handler.function
    elif handler.sliced is not None:
        function, in_turns = handler.sliced(staged)
    else:
        function = staged
        in_turns = _staged(handler.in_turns or handler.function, handler, version, security)
    return brokers_only(function, handler, version), brokers_only(in_turns, handler, version)


def _always(message: Message) -> bool:
    return True


def _staged(
    function: HandlerFunction, handler: Handler, version: int, security: RequestSecurity
) -> HandlerFunction:
    quotas = security.quotas
    if QuotaKind.MUTATION in quotas.kinds:
        for mutations in handler.mutations:
            function = admitted(function, mutations, version, quotas, security.is_broker)
    if security.authorizer is not ALLOW_ALL or security.audit is not None:
        if handler.rule is None:
            raise LookupError(f"{handler.request_class.NAME} has no row in handlers/authorization")
        access_of = access_by(security.authorizer, security.audit, APIS[handler.request_class.api_key].name)
        function = authorized(function, handler.rule, version, access_of)
    if is_charged(handler.carried, quotas) and handler.request_class.api_key not in _UNCHARGED:
        kind = _always if is_brokers_only(handler, version) else handler.carried.is_of_follower
        is_exempt = exempting(security.is_broker, security.authorizer, kind)
        function = accounted(function, handler.carried, quotas, is_exempt)
    return function
