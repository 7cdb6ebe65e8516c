"""Authorization stage: the needs of an API's rule, and the response to a denied request.

A request is denied as a whole (`RequiredPermission`), or by elements of one of its arrays (`Each`): then the handler
gets the other elements, and the response has an error for each denied one. `after` filters the response. With the
allow-all authorizer none of this is part of a route.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.network.requests.brokers_only import refusal
from barnabas.network.requests.error_injection import error_response
from barnabas.network.requests.request_parts import with_value
from barnabas.protocol.api import response_class
from barnabas.protocol.schema import Message, Struct
from barnabas.security import RequestContext
from barnabas.security.authz import (
    DENIAL_TEXTS,
    Access,
    Action,
    AuditedAccess,
    AuditLog,
    Authorizer,
    Operation,
    ResourceType,
)

if TYPE_CHECKING:
    from barnabas.network.requests.dispatch import Request
    from barnabas.network.requests.routes import HandlerFunction, Result

logger = rate_limited_logger(__name__)

Names = Callable[[Any], Iterable[str | None]]
"""Maps a message to names of resources; None where the message names none."""


class RequiredPermission(NamedTuple):
    """An operation that the request as a whole needs, on some resources."""

    operation: Operation
    resource_type: ResourceType
    names: Names
    or_else: tuple[Action, ...] = ()  # any of these is sufficient, too
    or_anywhere: tuple[Operation, ResourceType] | None = None

    def denied(self, access: Access, message: Any) -> ErrorCode:
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


class Each(NamedTuple):
    """An operation that each element of an array needs."""

    asked: str
    answered: str
    action: Callable[[Any, Any, Any], Action | None]
    """Maps the broker, the message and an element to its resource; None when it names nothing that exists."""
    or_else: tuple[Action, ...] = ()
    others: Callable[[Any, Any], ErrorCode] | None = None
    """Error of the allowed elements when another one is denied, for all-or-nothing requests."""
    is_flat: bool = False
    """Omits everything inside a denied element from the response."""
    shown: Callable[[Any, Any], None] | None = None
    """Adds details that the client may know to a denied element of the response, from the broker."""


Judge = Callable[[Access, Any, Any, Any], None]
"""Filters a response, given an access, the broker and the message."""


class ApiPermissions(NamedTuple):
    """Authorization of one API. A row without needs is open to everyone."""

    whole: tuple[RequiredPermission, ...] = ()
    each: tuple[Each, ...] = ()
    before: Callable[[Access, Any, Any], Any] | None = None
    """Replaces the message for the handler; None when nothing of it is to be served."""
    after: tuple[Judge, ...] = ()
    refuse: Callable[[Message, int, ErrorCode], Message] = lambda message, version, error: refusal(
        message, version, error
    )
    """Builds the response to a request that is denied as a whole."""
    filled: Mapping[str, Any] = {}
    """Fields of denied elements that are not at their defaults in Kafka's responses."""
    is_served_empty: bool = False
    """Calls the handler even if no element of the array is left: the response contains more."""
    is_unanswered: Callable[[Any], bool] = lambda message: False
    """Requests without a response: the connection is closed instead, as in Kafka."""
    with_access: Callable[[Access], Mapping[str, Any]] | None = None
    """Keyword arguments for a handler that authorizes details that are not part of the request."""


class _Denied(NamedTuple):
    answered: str
    elements: list[Any]


AccessOf = Callable[[RequestContext], Access]


def access_by(authorizer: Authorizer, audit: AuditLog | None, api: str) -> AccessOf:
    """Return the function that gives the access of a request of an API, with or without auditing."""
    if audit is None:
        return lambda context: Access(authorizer, context)
    return lambda context: AuditedAccess(authorizer, context, audit, api)


def authorized(
    function: HandlerFunction, rule: ApiPermissions, version: int, access_of: AccessOf
) -> HandlerFunction:
    """Wrap a handler for a deployment with an authorizer, or with an audit log."""
    is_plain = not rule.after and rule.with_access is None

    def guard(broker: Any, request: Request, message: Any) -> Result:
        access = access_of(request.context)
        for need in rule.whole:
            error = need.denied(access, message)
            if error:
                return _refused(rule, request, message, version, error)
        wanted = message if rule.before is None else rule.before(access, broker, message)
        if wanted is None:
            return response_class(message.api_key)()
        denied: list[_Denied] = []
        for each in rule.each:
            wanted = _without_denied(each, access, broker, wanted, version, denied, rule.filled)
        if is_plain and not denied:
            return function(broker, request, wanted)
        return _serve(function, rule, access, denied, broker, request, wanted)

    return guard


def _refused(
    rule: ApiPermissions, request: Request, message: Any, version: int, error: ErrorCode
) -> Message | None:
    logger.info("%r of %s is denied: %s", request, request.context.principal, error.name)
    if rule.is_unanswered(message):
        request.connection.close(f"a request without an answer is denied: {error.name}")
        return None
    return _filled(rule.refuse(message, version, error), rule.filled, version)  # type: ignore[no-any-return]


def _parted(
    each: Each, access: Access, broker: Any, message: Any
) -> tuple[list[Any], dict[ErrorCode, list[Any]]]:
    """Split the elements into the allowed ones, and the denied ones by error."""
    items = getattr(message, each.asked) or ()
    by_error: dict[ErrorCode, list[Any]] = {}
    allowed = []
    for item in items:
        action = each.action(broker, message, item)
        if action is None:
            allowed.append(item)
            continue
        is_allowed = access.allows(action) or (bool(each.or_else) and access.allows_any(each.or_else))
        access.tell(action, is_allowed)
        if is_allowed:
            allowed.append(item)
        else:
            by_error.setdefault(action.error, []).append(item)
    return allowed, by_error


def _without_denied(
    each: Each,
    access: Access,
    broker: Any,
    message: Any,
    version: int,
    denied: list[_Denied],
    filled: Mapping[str, Any],
) -> Any:
    """Return the message without denied elements, which are added to `denied` with their errors."""
    allowed, by_error = _parted(each, access, broker, message)
    if not by_error:
        return message
    if each.others is not None:
        for item in allowed:
            by_error.setdefault(each.others(broker, item), []).append(item)
        allowed = []
    for error, some in by_error.items():
        answer = error_response(with_value(message, each.asked, some), error, version)
        elements = getattr(answer, each.answered)
        for element in elements:
            if each.shown is not None:
                each.shown(broker, element)
            if each.is_flat:
                _flatten(element)
            _filled(element, filled, version)
        denied.append(_Denied(each.answered, elements))
    return with_value(message, each.asked, allowed)


def _serve(
    function: HandlerFunction,
    rule: ApiPermissions,
    access: Access,
    denied: list[_Denied],
    broker: Any,
    request: Request,
    message: Any,
) -> Result:
    if denied:
        logger.info("a part of %r of %s is denied", request, request.context.principal)
    is_empty = bool(denied) and all(not getattr(message, each.asked) for each in rule.each)

    def complete(response: Message) -> Message:
        for judge in rule.after:
            judge(access, broker, message, response)
        if getattr(response, "error_code", ErrorCode.NONE):
            return response  # as a whole: Kafka does not list its elements then
        for answered, elements in denied:
            setattr(response, answered, [*getattr(response, answered), *elements])
        return response

    if is_empty and not rule.is_served_empty:
        if rule.is_unanswered(message):
            request.connection.close("a request without an answer is denied")
            return None
        return complete(response_class(message.api_key)())
    keywords = rule.with_access(access) if rule.with_access is not None else {}
    if not denied and not rule.after:
        return function(broker, request, message, **keywords)
    result = completed(function, complete, broker, request, message, keywords)
    if denied and rule.is_unanswered(message):
        request.connection.close("a part of a request without an answer is denied")
    return result


class StagedRequest:
    """A request whose response passes a stage before it is encoded. Other attributes are the request's."""

    __slots__ = ("_request", "_stage")

    def __init__(self, request: Any, stage: Callable[[Message], Message]) -> None:
        object.__setattr__(self, "_request", request)
        object.__setattr__(self, "_stage", stage)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._request, name, value)

    def __repr__(self) -> str:
        return repr(self._request)

    def respond(self, response: Message) -> None:
        self._request.respond(self._stage(response))

    def completed(self, response: Message) -> Message:
        passed: Message = self._request.completed(self._stage(response))
        return passed


def completed(
    function: HandlerFunction,
    complete: Callable[[Message], Message],
    broker: Any,
    request: Any,
    message: Any,
    keywords: Mapping[str, Any] | None = None,
) -> Result:
    """Call a handler and pass its response through `complete`, however it is returned."""
    staged: Any = StagedRequest(request, complete)
    result = function(broker, staged, message, **(keywords or {}))
    if result is None:
        return None
    return complete(result) if isinstance(result, Message) else awaited(result, complete)


async def awaited(
    coroutine: Awaitable[Message | None], complete: Callable[[Message], Message]
) -> Message | None:
    response = await coroutine
    return None if response is None else complete(response)


def _flatten(element: Any) -> None:
    for field in element.FIELDS:
        if field.wire == "array":
            setattr(element, field.name, [])


def _filled(struct: Any, values: Mapping[str, Any], version: int) -> Any:
    """Set fields of a denied response where it has them, and its error message."""
    for field in struct.FIELDS:
        if field.name in values:
            setattr(struct, field.name, values[field.name])
        elif field.name == "error_message" and field.present_in(version):
            text = DENIAL_TEXTS.get(getattr(struct, "error_code", ErrorCode.NONE))
            struct.error_message = text or struct.error_message
        elif field.wire == "array":
            for item in getattr(struct, field.name) or ():
                if isinstance(item, Struct):
                    _filled(item, values, version)
    return struct
