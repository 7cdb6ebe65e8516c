"""Quota stages: admit, before a request is executed, and account, afterwards.

A route has them only for kinds of quotas that are configured. Requests of brokers of the cluster are not
counted. The response is sent at once with its throttle time, and the client is muted from then on (KIP-219).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from time import monotonic
from types import coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from barnabas.common.errors import ErrorCode
from barnabas.network.requests.authorize_stage import StagedRequest, awaited, completed
from barnabas.network.requests.error_injection import error_response
from barnabas.network.requests.request import Request
from barnabas.network.requests.request_parts import with_value
from barnabas.protocol.api import response_class
from barnabas.protocol.schema import Message
from barnabas.security import RequestContext
from barnabas.security.authz import Access, Action, Authorizer, Operation, ResourceType
from barnabas.security.quotas import QuotaKind, Quotas, Usage

if TYPE_CHECKING:
    from barnabas.network.requests.routes import HandlerFunction, Result


# -- Time that one request occupies the loop; a coroutine counts only while it runs ---------------------

T = TypeVar("T")


class Stopwatch:
    """Runs from `began` until its time is added to `spent`."""

    __slots__ = ("began", "spent")

    def __init__(self) -> None:
        self.began = self.spent = 0.0

    @property
    def seconds(self) -> float:
        """The time spent, also while it runs for the first time."""
        return self.spent or time.monotonic() - self.began


@coroutine
def timed(inner: Coroutine[Any, Any, T], watch: Stopwatch) -> Generator[Any, Any, T]:
    """Run a coroutine; add the time that it runs, not the time that it waits, to the watch."""
    value: Any = None
    error: BaseException | None = None
    while True:
        began = time.monotonic()
        try:
            waiting = inner.send(value) if error is None else inner.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            watch.spent += time.monotonic() - began
        value, error = None, None
        try:
            value = yield waiting
        except BaseException as raised:  # cancelled, or the awaited future failed
            error = raised


class MutationQuota(NamedTuple):
    """Elements of a request that create or delete partitions, and the number of partitions (KIP-599)."""

    asked: str
    answered: str
    partitions: Callable[[Any, Any], int]
    """Maps the broker and an element to a number of partitions."""
    strict_since: int
    """First version whose clients understand THROTTLING_QUOTA_EXCEEDED."""


class QuotaBytes(NamedTuple):
    """Byte counts of a request and its response, records included as far as they are known before encoding."""

    produced: Callable[[Any, Request], int] | None = None
    fetched: Callable[[Any], int] | None = None
    cap: Callable[[Any, int], None] | None = None
    """Limits the number of bytes requested."""
    withhold: Callable[[Any, Any, Any], Any] | None = None
    """Maps the broker, the message and the response to a response without records, as if nothing had been
    read.
    """
    is_of_follower: Callable[[Any], bool] = lambda message: False
    """True for requests from replicas; clients send none."""


IsBroker = Callable[[RequestContext], bool]


def nobody(context: RequestContext) -> bool:
    return False


_CLUSTER_ACTION = Action(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)


def exempting(
    is_broker: IsBroker, authorizer: Authorizer, is_brokers_kind: Callable[[Any], bool]
) -> Callable[[RequestContext, Any], bool]:
    """Build the check for exempt requests on listeners that serve brokers: requests of brokers and, as in
    Kafka, broker-only requests of authorized principals. A client that only claims to be a broker is
    counted.
    """

    def is_exempt(context: RequestContext, message: Any) -> bool:
        return is_broker(context) or (
            is_brokers_kind(message) and Access(authorizer, context).allows(_CLUSTER_ACTION)
        )

    return is_exempt


def is_charged(carried: QuotaBytes, quotas: Quotas) -> bool:
    """Return whether requests of an API count against a quota."""
    kinds = quotas.kinds
    return (
        QuotaKind.REQUEST in kinds
        or (carried.produced is not None and QuotaKind.PRODUCE in kinds)
        or (carried.fetched is not None and QuotaKind.FETCH in kinds)
    )


def admitted(
    function: HandlerFunction, mutations: MutationQuota, version: int, quotas: Quotas, is_broker: IsBroker
) -> HandlerFunction:
    """Wrap a handler so that it gets the elements within the controller mutation quota; only the controller
    counts.
    """
    is_strict = version >= mutations.strict_since

    def admit(broker: Any, request: Request, message: Any) -> Result:
        if not broker.controller.is_active or is_broker(request.context):
            return function(broker, request, message)
        allowed: list[Any] = []
        refused: list[Any] = []
        wait_ms = 0
        for item in getattr(message, mutations.asked):
            wait = quotas.admit(request.context, mutations.partitions(broker, item), is_strict=is_strict)
            wait_ms = max(wait_ms, wait)
            (refused if wait and is_strict else allowed).append(item)
        answer = error_response(
            with_value(message, mutations.asked, refused), ErrorCode.THROTTLING_QUOTA_EXCEEDED, version
        )

        def complete(response: Message) -> Message:
            together = [*getattr(response, mutations.answered), *getattr(answer, mutations.answered)]
            setattr(response, mutations.answered, together)
            throttle(request, response, wait_ms)
            return response

        if not wait_ms:
            return function(broker, request, message)
        if not allowed:
            return complete(response_class(message.api_key)())
        return completed(function, complete, broker, request, with_value(message, mutations.asked, allowed))

    return admit


class QuotaTerms(NamedTuple):
    """Quotas that requests of a route count against, and the exemptions."""

    carried: QuotaBytes
    quotas: Quotas


class QuotaCharge(Stopwatch):
    """Usage of one request. It runs while the request is handled, and is settled with the response.

    It has no reference to its request, which refers to it: nothing that a connection holds may be a cycle.
    """

    __slots__ = ("_broker", "_message", "_produced", "_terms")

    def __init__(self, terms: QuotaTerms, broker: Any, request: Any, message: Any) -> None:
        self.began = self.spent = 0.0
        self._terms = terms
        self._broker = broker
        self._message = message
        self._produced = terms.carried.produced(message, request) if terms.carried.produced is not None else 0

    def settle(self, request: Any, response: Message) -> Message:
        """Charge the request; return the response for the client."""
        if type(request) is QuotaChargedRequest:
            request.__class__ = Request  # type: ignore[assignment]  # it has the same slots
        carried, quotas = self._terms
        fetched = carried.fetched(response) if carried.fetched is not None else 0
        usage = Usage(self._produced, fetched, self.seconds)
        if carried.withhold is None:
            wait_ms = quotas.charge(request.context, usage)
        elif wait_ms := quotas.charge_fetch(request.context, usage):
            response = carried.withhold(self._broker, self._message, response)
        if wait_ms:
            throttle(request, response, wait_ms)
        return response

    def settle_unanswered(self, request: Any) -> None:
        """Settle a request without a response (acks=0): its time is not charged, as in Kafka."""
        mute(request, self._terms.quotas.charge(request.context, Usage(self._produced)))


class QuotaChargedRequest(Request):
    """A request until it is charged: the class of a `Request` is switched to this one and back.

    A wrapper would cost a call for each attribute; this does not.
    """

    __slots__ = ()

    def respond(self, response: Message) -> None:
        settled = self.charge.settle(self, response)
        Request.respond(self, settled)

    def completed(self, response: Message) -> Message:
        settled: Message = self.charge.settle(self, response)
        return settled

    def respond_nothing(self) -> None:
        self.charge.settle_unanswered(self)
        super().respond_nothing()


class ChargedPart(StagedRequest):
    """The same for a part of a request, or a forwarded one."""

    __slots__ = ("_charge",)

    def __init__(self, request: Any, charge: QuotaCharge) -> None:
        super().__init__(request, partial(charge.settle, request))
        object.__setattr__(self, "_charge", charge)

    def respond_nothing(self) -> None:
        self._charge.settle_unanswered(self._request)
        self._request.respond_nothing()


def accounted(
    function: HandlerFunction,
    carried: QuotaBytes,
    quotas: Quotas,
    is_exempt: Callable[[RequestContext, Any], bool],
) -> HandlerFunction:
    """Wrap a handler so that its requests are charged for their bytes and their time on the loop."""
    terms, cap = QuotaTerms(carried, quotas), carried.cap

    def account(broker: Any, request: Request, message: Any) -> Result:
        if request.context.is_privileged and is_exempt(request.context, message):
            return function(broker, request, message)
        charge = QuotaCharge(terms, broker, request, message)
        if cap is not None:
            cap(message, quotas.fetch_room(request.context))
        charge.began = monotonic()
        result = function(broker, _charged(request, charge), message)
        charge.spent = monotonic() - charge.began
        if result is None:
            return None
        if isinstance(result, Message):
            return charge.settle(request, result)
        return awaited(timed(result, charge), partial(charge.settle, request))

    return account


def _charged(request: Request, charge: QuotaCharge) -> Any:
    if type(request) is not Request:
        return ChargedPart(request, charge)
    request.charge = charge
    request.__class__ = QuotaChargedRequest
    return request


def throttle(request: Request, response: Any, wait_ms: int) -> None:
    """Set the throttle time of the response, if its version has the field, and mute the client."""
    if wait_ms:
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = max(response.throttle_time_ms, wait_ms)
        mute(request, wait_ms)


def mute(request: Request, wait_ms: int) -> None:
    """Stop reading from a client for some time; forwarded requests have no client here."""
    connection = request.connection
    if wait_ms and connection is not None:
        connection.mute(wait_ms / 1000)
