"""What only the brokers of a cluster may ask of each other, and how others are refused (decision 0021).

The table of handlers names the first version of an API that only brokers send. A node alone asks itself without a
socket (`local_requests`), so it serves none of them to the network; a cluster serves them on its inter-broker listener.
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
    """The function of a route. Only that of a broker's request looks at the listener: the others cost nothing."""
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
    """An error as Kafka places it: at the top where the response has an error there, else in each of its elements."""
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
