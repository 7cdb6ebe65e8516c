"""Requests that only brokers of the cluster may send, and the refusal of others (decision 0021).

The table of handlers names the first version of an API that only brokers send. A single node sends them to
itself without a socket (`local_requests`), so it accepts none from the network; a cluster accepts them on its
inter-broker listener.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from barnabas.common.errors import ErrorCode
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.network.requests.error_injection import error_response
from barnabas.protocol.api import response_class
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.network.requests.dispatch import Request
    from barnabas.network.requests.routes import Handler, HandlerFunction

logger = rate_limited_logger(__name__)


def is_brokers_only(handler: Handler, version: int) -> bool:
    return handler.brokers_only_since is not None and version >= handler.brokers_only_since


def brokers_only(function: HandlerFunction, handler: Handler, version: int) -> HandlerFunction:
    """Return the function of a route. Only broker-only routes check the listener: others have no overhead."""
    if not is_brokers_only(handler, version):
        return function

    def serve_brokers(
        broker: Any, request: Request, message: Any
    ) -> Message | Coroutine[Any, Any, Message | None] | None:
        if request.context.is_privileged:
            return function(broker, request, message)
        log_refused(request)
        return refusal(message, version)

    return serve_brokers


def refusal(
    message: Message, version: int, error: ErrorCode = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
) -> Message:
    """Build an error response as Kafka does: at the top if the response has an error there, else in each
    element.
    """
    response = response_class(message.api_key)()
    if any(field.name == "error_code" and field.present_in(version) for field in response.FIELDS):
        response.error_code = error  # type: ignore[attr-defined]
        return response
    return error_response(message, error, version)


def log_refused(request: Request) -> None:
    request.dispatcher.refused_as_broker[request.route.name] += 1
    logger.warning(
        "%r was refused: only brokers of the cluster send this, on its inter-broker listener", request
    )
