"""Stages of a route without a server: in order before the handler, once in reverse order with the response."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.handlers.table import HANDLERS
from barnabas.metrics import RequestMetrics
from barnabas.metrics.registry import Registry
from barnabas.network.requests.request import Answer, InnerRequest, Request, StageCompletion
from barnabas.network.requests.routes import Route
from barnabas.network.requests.rules import OPEN, RequestSecurity
from barnabas.network.requests.stages import Stage, compiled, staged, stages_of
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.schema import Message
from barnabas.security.authz.standard_authorizer import Policy, StandardAuthorizer
from barnabas.security.context import SELF
from barnabas.security.quotas import NoQuotas, QuotaKind

ROUTE: Any = SimpleNamespace(version=4, name="Heartbeat")
ROWS = {ApiKey(row.request_class.api_key): row for row in HANDLERS}


class Noted(StageCompletion):
    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def answered(self, request: Request, response: Message) -> Message:
        self.log.append(f"after {self.name}")
        return response

    def unanswered(self, request: Request) -> None:
        self.log.append(f"nothing after {self.name}")


class Noting:
    """Records calls; answers itself to reject."""

    def __init__(self, log: list[str], name: str, *, refuses: bool = False) -> None:
        self.log, self.name, self.refuses = log, name, refuses

    def before(self, broker: object, request: Request, message: Message) -> Message | Answer:
        self.log.append(f"before {self.name}")
        if self.refuses:
            return Answer(HeartbeatResponse(error_code=1))
        assert request.after is not None
        request.after.append(Noted(self.log, self.name))
        return message


def two(log: list[str], *, refuses: bool = False) -> tuple[Stage, ...]:
    return Noting(log, "first"), Noting(log, "second", refuses=refuses)


def returned(broker: object, request: Request, message: Message) -> Message:
    return HeartbeatResponse()


async def awaited(broker: object, request: Request, message: Message) -> Message:
    await asyncio.sleep(0)
    return HeartbeatResponse()


def responded(broker: object, request: Request, message: Message) -> None:
    request.respond(HeartbeatResponse())


def responded_later(broker: object, request: Request, message: Message) -> None:
    asyncio.get_running_loop().call_soon(request.respond, HeartbeatResponse())


@pytest.mark.parametrize("handler", [returned, awaited, responded, responded_later])
def test_response_passes_the_stages_once_in_reverse_order(handler: Any) -> None:
    log: list[str] = []

    async def serve() -> Message:
        function = staged(handler, two(log))
        return await InnerRequest(ROUTE, SELF).served(function, None, HeartbeatRequest("g"))

    response = asyncio.run(serve())
    assert isinstance(response, HeartbeatResponse)
    assert log == ["before first", "before second", "after second", "after first"]


def test_a_stage_that_answers_ends_the_request_and_only_earlier_stages_see_the_response() -> None:
    log: list[str] = []

    async def serve() -> Any:
        function = staged(responded, two(log, refuses=True))
        return function(None, InnerRequest(ROUTE, SELF), HeartbeatRequest("g"))

    assert asyncio.run(serve()).error_code == 1
    assert log == ["before first", "before second", "after first"]


def test_a_request_without_a_response_is_completed_by_its_stages_too() -> None:
    log: list[str] = []

    def silent(broker: object, request: Request, message: Message) -> None:
        request.respond_nothing()

    async def serve() -> Message | Coroutine[Any, Any, Message | None] | None:
        request = InnerRequest(ROUTE, SELF)
        staged(silent, two(log))(None, request, HeartbeatRequest("g"))
        return await request.future

    assert asyncio.run(serve()) is None
    assert log[2:] == ["nothing after second", "nothing after first"]


class Metadata(NoQuotas):
    kinds = frozenset({QuotaKind.MUTATION, QuotaKind.REQUEST})


GUARDED = RequestSecurity(StandardAuthorizer(Policy()), Metadata())


@pytest.mark.parametrize(
    ("key", "security", "expected"),
    [
        (ApiKey.CREATE_TOPICS, OPEN, []),
        (ApiKey.CREATE_TOPICS, GUARDED, ["QuotaCharge", "Authorize", "MutationQuota"]),
        (ApiKey.ENVELOPE, OPEN, ["BrokersOnly"]),
        (ApiKey.ENVELOPE, GUARDED, ["BrokersOnly", "QuotaCharge", "Authorize"]),
        (ApiKey.SASL_HANDSHAKE, GUARDED, ["Authorize"]),
    ],
)
def test_a_route_has_the_stages_that_its_row_and_the_deployment_need_in_the_documented_order(
    key: ApiKey, security: RequestSecurity, expected: list[str]
) -> None:
    row = ROWS[key]
    assert [type(stage).__name__ for stage in stages_of(row, row.max_version, security)] == expected


def test_routes_without_stages_call_the_handlers_themselves() -> None:
    metrics = RequestMetrics(Registry())
    for row in HANDLERS:
        route = Route(row, row.max_version, metrics, compiled(row, row.max_version, OPEN))
        if not stages_of(row, row.max_version, OPEN):
            assert route.function is row.function
            assert route.in_turns is (row.in_turns or row.function)
