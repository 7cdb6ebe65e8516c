"""A broker with injected defects, to test the fuzzer: the group id of a Heartbeat selects one.

It also serves everybody, authenticated or not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import thread_time

from barnabas.broker.broker import Broker
from barnabas.common.errors import ErrorCode
from barnabas.network.requests import Request
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse

log = logging.getLogger(__name__)


def mutate(broker: Broker) -> None:
    broker.dispatcher.authenticate = broker.dispatcher.dispatch  # type: ignore[method-assign]
    handlers = broker.dispatcher.handlers
    handlers[ApiKey.HEARTBEAT] = handlers[ApiKey.HEARTBEAT]._replace(function=_heartbeat)


def _heartbeat(broker: Broker, request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
    defect = DEFECTS.get(message.group_id)
    return HeartbeatResponse(error_code=defect() or ErrorCode.NONE if defect else ErrorCode.NONE)


def _slow() -> None:
    deadline = thread_time() + 0.12
    while thread_time() < deadline:
        pass


def _greedy() -> None:
    bytearray(b"x") * (200 << 20)


def _failing() -> None:
    raise ValueError("a mistake of ours")


def _forging() -> None:
    log.info("a group called %s", "x\nERROR all is lost")


def _flooding() -> None:
    for _ in range(500):
        log.info("a line")


def _unhelpful() -> ErrorCode:
    return ErrorCode.UNKNOWN_SERVER_ERROR


DEFECTS: dict[str, Callable[[], ErrorCode | None]] = {
    "loop": _slow,
    "memory": _greedy,
    "log": _failing,
    "forged": _forging,
    "flood": _flooding,
    "error": _unhelpful,
}
