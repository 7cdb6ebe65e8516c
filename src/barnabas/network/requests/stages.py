"""The stages of a request, compiled into the function of its route.

    frame, authenticate, decode -> BrokersOnly -> QuotaCharge -> Authorize -> MutationQuota -> handler
    mute, encode                <----------------- charge <---- denials <---- throttle <------ response

The connection frames and mutes, the dispatcher authenticates, decodes and encodes. The others are `STAGES`, as the rows
of the table say; `staged` runs them before the handler, and the response passes them in reverse order
(`Request.after`). A deployment without authorizer and quotas has none of them: its routes call the bare handlers.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.common.safe_logging import rate_limited_logger
from barnabas.network.requests.authorize_stage import Authorize
from barnabas.network.requests.denials import refusal
from barnabas.network.requests.quota_stage import MutationQuota, QuotaCharge
from barnabas.network.requests.request import Answer, Request
from barnabas.network.requests.routes import HandlerFunction, Result
from barnabas.network.requests.rules import RequestSecurity
from barnabas.network.requests.time_slices import Stopwatch, timed
from barnabas.protocol.api import ApiKey
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.network.requests.routes import Handler

logger = rate_limited_logger(__name__)

BEFORE_AUTHENTICATION = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE})
"""The only requests decoded for a client that has not authenticated yet."""


class Stage(Protocol):
    """One stage of a route. What it does afterwards is a `StageCompletion`, which it appends to `Request.after`."""

    def before(self, broker: object, request: Request, message: Message) -> Message | Answer:
        """Return the message for the next stage, or the answer to the request."""
        ...


class BrokersOnly:
    """Refuses requests of clients that only brokers of the cluster may send (decision 0021).

    The table of handlers names the first version of an API that only brokers send. A single node sends them to itself
    without a socket (`local_requests`), so it accepts none from the network; a cluster accepts them on its
    inter-broker listener. Only broker-only routes have this stage: others have no overhead.
    """

    @classmethod
    def of(cls, handler: Handler, version: int, security: RequestSecurity) -> Iterator[BrokersOnly]:
        if handler.is_brokers_only(version):
            yield cls()

    def before(self, broker: object, request: Request, message: Message) -> Message | Answer:
        if request.context.is_privileged:
            return message
        log_refused(request)
        return Answer(refusal(message, request.version))


def log_refused(request: Request) -> None:
    request.dispatcher.refused_as_broker[request.route.name] += 1
    logger.warning(
        "%r was refused: only brokers of the cluster send this, on its inter-broker listener", request
    )


STAGES: Final = (BrokersOnly, QuotaCharge, Authorize, MutationQuota)
"""In the order of a request."""


def stages_of(row: Handler, version: int, security: RequestSecurity) -> tuple[Stage, ...]:
    """Return the stages of a route."""
    return tuple(stage for kind in STAGES for stage in kind.of(row, version, security))


def compiled(
    row: Handler, version: int, security: RequestSecurity
) -> tuple[HandlerFunction, HandlerFunction]:
    """Return the functions of a route: for most requests, and for those of many elements.

    Clients are refused as a whole; each part of a request of many elements passes the other stages.
    """
    stages = stages_of(row, version, security)
    in_turns = row.in_turns or row.function
    if row.chunked is None or row.bare is None:
        return staged(row.function, stages), staged(in_turns, stages)
    broker_only = tuple(stage for stage in stages if isinstance(stage, BrokersOnly))
    of_parts = stages[len(broker_only) :]
    if not of_parts:
        return staged(row.function, broker_only), staged(in_turns, broker_only)
    function, in_turns = row.chunked(staged(row.bare, of_parts))
    return staged(function, broker_only), staged(in_turns, broker_only)


def staged(function: HandlerFunction, stages: tuple[Stage, ...]) -> HandlerFunction:
    """Return the function that passes requests through stages to a handler; without stages the handler itself."""
    if not stages:
        return function
    is_charged = any(isinstance(stage, QuotaCharge) for stage in stages)

    def serve(broker: object, request: Request, message: Message) -> Result[Message]:
        if request.after is None:
            request.after = []
        for stage in stages:
            passed = stage.before(broker, request, message)
            if passed is message:
                continue
            if type(passed) is Answer:
                return None if passed.response is None else request.completed(passed.response)
            message = passed
        result = function(broker, request, message)
        if isinstance(result, Message):
            return request.completed(result) if request.after else result
        charge = request.charge if is_charged else None
        if charge is not None:
            charge.spent = monotonic() - charge.began  # the request waits from now on
        return None if result is None else _awaited(request, result, charge)

    return serve


async def _awaited(
    request: Request, result: Coroutine[object, object, Message | None], charge: Stopwatch | None
) -> Message | None:
    response = await (result if charge is None else timed(result, charge))
    return None if response is None else request.completed(response)
