"""Authorization stage: the needs of an API's rule, and the response to a denied request.

A request is denied as a whole (`RequiredPermission`), or by elements of one of its arrays (`Each`): then the handler
gets the other elements, and the response has an error for each denied one. `after` filters the response. A handler
that authorizes details that are not part of the request calls `access_of`. With the allow-all authorizer a route does
not have this stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.network.requests.denials import error_response, with_details, without_arrays
from barnabas.network.requests.request import Answer, Request, StageCompletion
from barnabas.network.requests.request_parts import with_value
from barnabas.network.requests.rules import ApiPermissions, Each, RequestSecurity
from barnabas.protocol.api import APIS, response_class
from barnabas.security import RequestContext
from barnabas.security.authz import (
    ALLOW_ALL,
    Access,
    AuditedAccess,
    AuditLog,
    Authorizer,
)

if TYPE_CHECKING:
    from barnabas.network.requests.routes import Handler
    from barnabas.protocol.schema import Message, Struct

logger = rate_limited_logger(__name__)

AccessOf = Callable[[RequestContext], Access]


def access_by(authorizer: Authorizer, audit: AuditLog | None, api: str) -> AccessOf:
    """Return the function that gives the access of a request of an API, with or without auditing."""
    if audit is None:
        return partial(Access, authorizer)
    return lambda context: AuditedAccess(authorizer, context, audit, api)


class Authorize:
    """The stage of a deployment with an authorizer, or with an audit log."""

    __slots__ = ("access_of", "rule")

    def __init__(self, rule: ApiPermissions, access_of: AccessOf) -> None:
        self.rule = rule
        self.access_of = access_of

    @classmethod
    def of(cls, handler: Handler, version: int, security: RequestSecurity) -> Iterator[Authorize]:
        if security.authorizer is ALLOW_ALL and security.audit is None:
            return
        if handler.rule is None:
            raise LookupError(f"{handler.request_class.NAME} has no row in handlers/authorization")
        name = APIS[handler.request_class.api_key].name
        yield cls(handler.rule, access_by(security.authorizer, security.audit, name))

    def before(self, broker: object, request: Request, message: Message) -> Message | Answer:
        rule, access = self.rule, self.access_of(request.context)
        request.access = access
        for need in rule.whole:
            error = need.denied(access, message)
            if error:
                return self._refused(request, message, error)
        wanted = message if rule.before is None else rule.before(access, broker, message)
        if wanted is None:
            return Answer(response_class(message.api_key)())
        denied: list[_Denied] = []
        for each in rule.each:
            allowed, by_error = _split(each, access, broker, wanted)
            if by_error:
                denied += self._denials(each, broker, wanted, request.version, allowed, by_error)
                wanted = with_value(wanted, each.asked, [] if each.others is not None else allowed)
        if not denied and not rule.after:
            return wanted
        return self._in_part(broker, request, wanted, denied)

    def _refused(self, request: Request, message: Message, error: ErrorCode) -> Answer:
        logger.info("%r of %s is denied: %s", request, request.context.principal, error.name)
        if self.rule.is_unanswered(message):
            request.close(f"a request without an answer is denied: {error.name}")
            return Answer(None)
        response = self.rule.refuse(message, request.version, error)
        return Answer(with_details(response, self.rule.filled, request.version))

    def _denials(
        self,
        each: Each,
        broker: object,
        message: Message,
        version: int,
        allowed: list[object],
        by_error: dict[ErrorCode, list[object]],
    ) -> Iterator[_Denied]:
        """Yield the elements of the response for denied elements, by error."""
        if each.others is not None:
            for item in allowed:
                by_error.setdefault(each.others(broker, item), []).append(item)
        for error, some in by_error.items():
            answer = error_response(with_value(message, each.asked, some), error, version)
            elements: list[Struct] = getattr(answer, each.answered)
            for element in elements:
                if each.shown is not None:
                    each.shown(broker, element)
                if each.is_flat:
                    without_arrays(element)
                with_details(element, self.rule.filled, version)
            yield _Denied(each.answered, elements)

    def _in_part(
        self, broker: object, request: Request, message: Message, denied: list[_Denied]
    ) -> Message | Answer:
        """Serve the rest of a request of which elements are denied, or whose response is filtered."""
        rule = self.rule
        is_empty = (
            bool(denied)
            and not rule.is_served_empty
            and not any(getattr(message, each.asked) for each in rule.each)
        )
        if denied:
            logger.info("a part of %r of %s is denied", request, request.context.principal)
        if is_empty and rule.is_unanswered(message):
            request.close("a request without an answer is denied")
            return Answer(None)
        assert request.after is not None  # `staged` has set it
        request.after.append(Authorized(rule, request.access, broker, message, denied))
        return Answer(response_class(message.api_key)()) if is_empty else message


class _Denied(NamedTuple):
    answered: str
    elements: list[Struct]


class Authorized(StageCompletion):
    """Filters a response, and adds an error for each denied element."""

    __slots__ = ("_access", "_broker", "_denied", "_message", "_rule")

    def __init__(
        self,
        rule: ApiPermissions,
        access: Access,
        broker: object,
        message: Message,
        denied: Sequence[_Denied],
    ) -> None:
        self._rule = rule
        self._access = access
        self._broker = broker
        self._message = message
        self._denied = denied

    def answered(self, request: Request, response: Message) -> Message:
        for judge in self._rule.after:
            judge(self._access, self._broker, self._message, response)
        if self._denied and self._rule.is_unanswered(self._message):
            self.unanswered(request)
        if getattr(response, "error_code", ErrorCode.NONE):
            return response  # as a whole: Kafka does not list its elements then
        for answered, elements in self._denied:
            setattr(response, answered, [*getattr(response, answered), *elements])
        return response

    def unanswered(self, request: Request) -> None:
        if self._denied:
            request.close("a part of a request without an answer is denied")


def _split(
    each: Each, access: Access, broker: object, message: Message
) -> tuple[list[object], dict[ErrorCode, list[object]]]:
    """Split the elements into the allowed ones, and the denied ones by error."""
    by_error: dict[ErrorCode, list[object]] = {}
    allowed: list[object] = []
    for item in getattr(message, each.asked) or ():
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
