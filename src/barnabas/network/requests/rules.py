"""Inputs of the stages: the rules of an API, and the authorizer and the quotas of the deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.network.requests.denials import refusal
from barnabas.protocol.schema import Message
from barnabas.security import RequestContext
from barnabas.security.authz import ALLOW_ALL, Access, Action, AuditLog, Authorizer, Operation, ResourceType
from barnabas.security.quotas import NO_QUOTAS, Quotas

# -- Authorization: `handlers/authorization` has the rule of each API ------------------------------------

Names = Callable[[Any], Iterable[str | None]]
"""Maps a message to names of resources; None where the message names none."""


class RequiredPermission(NamedTuple):
    """An operation that the request as a whole needs, on some resources."""

    operation: Operation
    resource_type: ResourceType
    names: Names
    or_else: tuple[Action, ...] = ()  # any of these is sufficient, too
    or_anywhere: tuple[Operation, ResourceType] | None = None

    def denied(self, access: Access, message: Message) -> ErrorCode:
        for name in self.names(message):
            if name is None:
                continue
            action = Action(self.operation, self.resource_type, name)
            is_allowed = self._allows(access, action)
            access.tell(action, is_allowed)
            if not is_allowed:
                return action.error
        return ErrorCode.NONE

    def _allows(self, access: Access, action: Action) -> bool:
        return (
            access.allows(action)
            or (bool(self.or_else) and access.allows_any(self.or_else))
            or (self.or_anywhere is not None and access.allows_somewhere(*self.or_anywhere))
        )


ActionOf = Callable[[Any, Any, Any], Action | None]
"""Maps the broker, the message and an element to its resource; None when it names nothing that exists."""


class Each(NamedTuple):
    """An operation that each element of an array needs."""

    asked: str
    answered: str
    action: ActionOf
    or_else: tuple[Action, ...] = ()
    others: Callable[[Any, Any], ErrorCode] | None = None
    """Error of the allowed elements when another one is denied, for all-or-nothing requests."""
    is_flat: bool = False
    """Omits everything inside a denied element from the response."""
    shown: Callable[[Any, Any], None] | None = None
    """Adds details that the client may know to a denied element of the response, from the broker."""


ResponseFilter = Callable[[Access, Any, Any, Any], None]
"""Filters a response, given an access, the broker and the message."""


class ApiPermissions(NamedTuple):
    """Authorization of one API. A row without needs is open to everyone."""

    whole: tuple[RequiredPermission, ...] = ()
    each: tuple[Each, ...] = ()
    before: Callable[[Access, Any, Any], Message | None] | None = None
    """Replaces the message for the handler; None when nothing of it is to be served."""
    after: tuple[ResponseFilter, ...] = ()
    refuse: Callable[[Any, int, ErrorCode], Message] = refusal
    """Builds the response to a request that is denied as a whole."""
    filled: Mapping[str, object] = {}
    """Fields of denied elements that are not at their defaults in Kafka's responses."""
    is_served_empty: bool = False
    """Calls the handler even if no element of the array is left: the response contains more."""
    is_unanswered: Callable[[Any], bool] = lambda message: False
    """Requests without a response: the connection is closed instead, as in Kafka."""


# -- Quotas: `handlers/quotas` has what each API counts ---------------------------------------------------


class MutationCount(NamedTuple):
    """Elements of a request that create or delete partitions, and the number of partitions (KIP-599)."""

    asked: str
    answered: str
    partitions: Callable[[Any, Any], int]
    """Maps the broker and an element to a number of partitions."""
    strict_since: int
    """First version whose clients understand THROTTLING_QUOTA_EXCEEDED."""


class QuotaBytes(NamedTuple):
    """Byte counts of a request and its response, records included as far as they are known before encoding."""

    produced: Callable[[Any, RequestContext], int] | None = None
    fetched: Callable[[Any], int] | None = None
    cap: Callable[[Any, int], None] | None = None
    """Limits the number of bytes requested."""
    withhold: Callable[[Any, Any, Any], Message] | None = None
    """Maps the broker, the message and the response to a response without records, as if nothing had been
    read.
    """
    is_of_follower: Callable[[Any], bool] = lambda message: False
    """True for requests from replicas; clients send none."""


# -- The deployment ---------------------------------------------------------------------------------------

IsBroker = Callable[[RequestContext], bool]


def nobody(context: RequestContext) -> bool:
    return False


class RequestSecurity(NamedTuple):
    """Authorizer, audit log and quotas of a deployment."""

    authorizer: Authorizer = ALLOW_ALL
    quotas: Quotas = NO_QUOTAS
    audit: AuditLog | None = None
    is_broker: IsBroker = nobody
    """Identifies brokers reliably: their requests do not count against quotas."""


OPEN = RequestSecurity()
