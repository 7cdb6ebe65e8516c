"""Requests that only brokers of the cluster may send, and the refusal of others (decision 0021).

The table of handlers names the first version of an API that only brokers send. A single node sends them to
itself without a socket (`local_requests`), so it accepts none from the network; a cluster accepts them on its
inter-broker listener.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.common.safe_logging import rate_limited_logger
from barnabas.network.requests.denials import refusal
from barnabas.network.requests.request import Answer
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.network.requests.request import Request
    from barnabas.network.requests.routes import Handler
    from barnabas.network.requests.rules import RequestSecurity

logger = rate_limited_logger(__name__)


class BrokersOnly:
    """Refuses clients. Only broker-only routes have this stage: others have no overhead."""

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
