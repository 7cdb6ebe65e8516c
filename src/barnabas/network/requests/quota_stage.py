"""Quota stages: a request is charged for its bytes and its time, and admitted as far as it changes metadata.

A route has them only for kinds of quotas that are configured. Requests of brokers of the cluster are not
counted. The response is sent at once with its throttle time, and the client is muted from then on (KIP-219).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.common.errors import ErrorCode
from barnabas.network.requests.denials import error_response
from barnabas.network.requests.request import Answer, Request, StageCompletion
from barnabas.network.requests.request_parts import wait_longer, with_value
from barnabas.network.requests.rules import MutationCount, QuotaBytes, RequestSecurity
from barnabas.network.requests.time_slices import Stopwatch
from barnabas.protocol.api import ApiKey, response_class
from barnabas.security import RequestContext
from barnabas.security.authz import Access, Action, Operation, ResourceType
from barnabas.security.quotas import QuotaKind, Quotas, Usage

if TYPE_CHECKING:
    from barnabas.network.connection import Connection
    from barnabas.network.requests.routes import Handler
    from barnabas.protocol.schema import Message, Struct

_UNCHARGED = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""Requests that are not charged: the client is not known yet."""

_CLUSTER_ACTION = Action(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)


def is_charged(carried: QuotaBytes, quotas: Quotas) -> bool:
    """Return whether requests of an API count against a quota."""
    kinds = quotas.kinds
    return (
        QuotaKind.REQUEST in kinds
        or (carried.produced is not None and QuotaKind.PRODUCE in kinds)
        or (carried.fetched is not None and QuotaKind.FETCH in kinds)
    )


class QuotaCharge:
    """The stage that charges requests for their bytes and their time on the loop."""

    __slots__ = ("carried", "is_brokers_only", "security")

    def __init__(self, carried: QuotaBytes, security: RequestSecurity, *, is_brokers_only: bool) -> None:
        self.carried = carried
        self.security = security
        self.is_brokers_only = is_brokers_only

    @classmethod
    def of(cls, handler: Handler, version: int, security: RequestSecurity) -> Iterator[QuotaCharge]:
        if is_charged(handler.carried, security.quotas) and handler.request_class.api_key not in _UNCHARGED:
            yield cls(handler.carried, security, is_brokers_only=handler.is_brokers_only(version))

    def before(self, broker: object, request: Request, message: Message) -> Message:
        context, cap, quotas = request.context, self.carried.cap, self.security.quotas
        if context.is_privileged and self._is_exempt(context, message):
            request.charge = None
            return message
        charge = request.charge = RequestCharge(self.carried, quotas, broker, request, message)
        if cap is not None:
            cap(message, quotas.fetch_room(context))
        request.after.append(charge)  # type: ignore[union-attr]  # `staged` has set it
        charge.began = time.monotonic()
        return message

    def _is_exempt(self, context: RequestContext, message: Message) -> bool:
        """On listeners that serve brokers, requests of brokers are exempt and, as in Kafka, broker-only requests
        of authorized principals. A client that only claims to be a broker is counted.
        """
        return self.security.is_broker(context) or (
            (self.is_brokers_only or self.carried.is_of_follower(message))
            and Access(self.security.authorizer, context).allows(_CLUSTER_ACTION)
        )


class RequestCharge(Stopwatch, StageCompletion):
    """Usage of one request. The watch runs until its handler has returned; a coroutine is timed while it runs.

    It has no reference to its request, which refers to it: nothing that a connection holds may be a cycle.
    """

    __slots__ = ("_broker", "_carried", "_message", "_produced", "_quotas")

    def __init__(
        self, carried: QuotaBytes, quotas: Quotas, broker: object, request: Request, message: Message
    ) -> None:
        self.began = self.spent = 0.0  # not by a call: one for each request
        self._carried = carried
        self._quotas = quotas
        self._broker = broker
        self._message = message
        self._produced = carried.produced(message, request.context) if carried.produced is not None else 0

    def answered(self, request: Request, response: Message) -> Message:
        """Charge the request; return the response for the client."""
        carried, quotas = self._carried, self._quotas
        fetched = carried.fetched(response) if carried.fetched is not None else 0
        usage = Usage(self._produced, fetched, self.spent or time.monotonic() - self.began)
        if carried.withhold is None:
            wait_ms = quotas.charge(request.context, usage)
        elif wait_ms := quotas.charge_fetch(request.context, usage):
            response = carried.withhold(self._broker, self._message, response)
        if wait_ms:
            throttle(request, response, wait_ms)
        return response

    def unanswered(self, request: Request) -> None:
        """The time of a request without a response is not charged, as in Kafka."""
        mute(request, self._quotas.charge(request.context, Usage(self._produced)))


class MutationQuota:
    """The stage that passes on the elements within the controller mutation quota; only the controller counts."""

    __slots__ = ("counted", "security")

    def __init__(self, counted: MutationCount, security: RequestSecurity) -> None:
        self.counted = counted
        self.security = security

    @classmethod
    def of(cls, handler: Handler, version: int, security: RequestSecurity) -> Iterator[MutationQuota]:
        if QuotaKind.MUTATION in security.quotas.kinds:
            for counted in handler.mutations:
                yield cls(counted, security)

    def before(self, broker: Any, request: Request, message: Message) -> Message | Answer:
        counted, context = self.counted, request.context
        if not broker.controller.is_active or self.security.is_broker(context):
            return message
        is_strict = request.version >= counted.strict_since
        allowed: list[object] = []
        refused: list[object] = []
        wait_ms = 0
        for item in getattr(message, counted.asked):
            wait = self.security.quotas.admit(context, counted.partitions(broker, item), is_strict=is_strict)
            wait_ms = max(wait_ms, wait)
            (refused if wait and is_strict else allowed).append(item)
        if not wait_ms:
            return message
        answer = error_response(
            with_value(message, counted.asked, refused), ErrorCode.THROTTLING_QUOTA_EXCEEDED, request.version
        )
        assert request.after is not None  # `staged` has set it
        request.after.append(Throttled(counted.answered, getattr(answer, counted.answered), wait_ms))
        if not allowed:
            return Answer(response_class(message.api_key)())
        return with_value(message, counted.asked, allowed)


class Throttled(StageCompletion):
    """Adds the refused elements to a response, and its throttle time."""

    __slots__ = ("_answered", "_refused", "_wait_ms")

    def __init__(self, answered: str, refused: Sequence[Struct], wait_ms: int) -> None:
        self._answered = answered
        self._refused = refused
        self._wait_ms = wait_ms

    def answered(self, request: Request, response: Message) -> Message:
        setattr(response, self._answered, [*getattr(response, self._answered), *self._refused])
        throttle(request, response, self._wait_ms)
        return response


def throttle(request: Request, response: Message, wait_ms: int) -> None:
    """Set the throttle time of the response, and mute the client."""
    wait_longer(response, wait_ms)
    mute(request, wait_ms)


def mute(request: Request, wait_ms: int) -> None:
    """Stop reading from a client for some time; forwarded requests have no client here."""
    connection: Connection | None = request.connection
    if wait_ms and connection is not None:
        connection.mute(wait_ms / 1000)
