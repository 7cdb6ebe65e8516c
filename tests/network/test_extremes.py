"""Every array of every request at its maximum size: no long event loop step.

Filled with the smallest elements, and with elements that all name one thing that exists. What the handler table gains
is tested here without anybody's doing.
"""

from __future__ import annotations

from statistics import median

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas.network.requests import RequestSecurity
from barnabas.network.requests.heavy_requests import RequestBudget
from barnabas.network.requests.routes import ELEMENTS_AT_ONCE
from barnabas.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
)
from barnabas.protocol.schema import Message
from barnabas.security.authz.authorizer import AllowAll
from barnabas.testing import EmbeddedBroker
from tests.support.clocks import MAX_STEP
from tests.support.extremes import Extreme, Steps, ask, extremes, sparing
from tests.support.server import frame
from tests.support.waiting import until

TRIES = 3
LARGE = 3_000
TRANSACTION_MARKERS = "WriteTxnMarkers"  # each is written to a log: of as many as may be, in fifteen seconds


def test_no_array_of_any_request_holds_the_loop_up(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [extreme for extreme in extremes() if TRANSACTION_MARKERS not in extreme.label]
    assert _long_steps(chosen, LARGE, monkeypatch) == []


@pytest.mark.extended
@pytest.mark.timeout(1800)  # of a busy machine: 2 minutes of an idle one
def test_no_array_of_the_largest_requests_holds_the_loop_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _long_steps(list(extremes()), RequestBudget().elements, monkeypatch) == []


@pytest.mark.extended
def test_no_request_about_acls_holds_the_loop_up_where_there_is_an_authorizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    number = RequestBudget().elements
    new = [AclCreation(2, f"topic-{each}", 3, "User:a", "*", 3, 3) for each in range(number)]
    by_name = DeleteAclsFilter(2, "none", 3, None, None, 1, 1)
    every = DeleteAclsFilter(1, None, 1, None, None, 1, 1)
    requests: list[Message] = [
        DeleteAclsRequest([by_name] * number),
        DeleteAclsRequest([DeleteAclsFilter()] * number),  # not valid, each of them
        CreateAclsRequest(new),  # more than one request may
        CreateAclsRequest(new[:8000]),
        CreateAclsRequest(new[:8000] * (number // 8000)),
        DeleteAclsRequest([every] * (number // 8000)),
    ]
    with sparing(), EmbeddedBroker() as broker:
        broker.broker.dispatcher.use(RequestSecurity(authorizer=AllowAll()))
        steps = Steps(monkeypatch)
        longest: list[list[float]] = [[] for _ in requests]
        for _ in range(TRIES):
            for index, request in enumerate(requests):
                steps.restart()
                ask(broker.port, frame(request, 3))
                _finish_requests(broker)
                longest[index].append(steps.longest)
            assert not broker.broker.image.acls
        assert max(map(median, longest)) <= MAX_STEP, longest


def _long_steps(chosen: list[Extreme], elements: int, patch: pytest.MonkeyPatch) -> list[str]:
    found = []
    with sparing(), EmbeddedBroker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("known", 2, 1)])["known"].result(60)
        topic_id = _topic_id(admin)
        steps = Steps(patch)
        compiled = set()
        for extreme in chosen:
            if extreme.handler.request_class not in compiled:
                compiled.add(extreme.handler.request_class)
                ask(broker.port, extreme.frame(ELEMENTS_AT_ONCE + 100, topic_id))  # compiles its codecs
            for _ in range(TRIES):  # every request has the same cost
                steps.restart()
                ask(broker.port, extreme.frame(elements, topic_id))
                _finish_requests(broker)
                if steps.longest <= MAX_STEP:
                    break
            else:
                found.append(f"{extreme.label}: {steps.longest * 1000:.0f} ms in {steps.what}")
    return found


def _finish_requests(broker: EmbeddedBroker) -> None:
    """Wait until the request is freed, which is after its answer."""
    until(lambda: not broker.broker.dispatcher._tasks, "the end of all requests")


def _topic_id(admin: AdminClient) -> bytes:
    """Ids are shown as two numbers."""
    described = admin.describe_topics(TopicCollection(["known"]))["known"].result(60)
    uuid = described.topic_id
    parts = (uuid.get_most_significant_bits(), uuid.get_least_significant_bits())
    return b"".join(part.to_bytes(8, "big", signed=True) for part in parts)
