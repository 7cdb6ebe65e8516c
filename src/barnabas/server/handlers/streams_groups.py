"""Streams groups (KIP-1071): StreamsGroupHeartbeat 0 and StreamsGroupDescribe 0.

- Both need the feature `streams.version` 1, as with Kafka.
- Static members, warm-ups and patterns of source topics are in the protocol; Kafka 4.3 refuses them, and so do we.
- The answer does not wait for internal topics that have to be created: it says that they are missing, and why, if
  creating them has failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.groups.shard import GroupShard
from barnabas.groups.step import Step
from barnabas.groups.streams.checks import check_heartbeat
from barnabas.groups.streams.configured import InternalTopic
from barnabas.groups.streams.describe import described
from barnabas.groups.streams.sizing import Status
from barnabas.protocol.messages.streams import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from barnabas.server.describing import describe_each
from barnabas.server.features import is_enabled
from barnabas.server.handlers.groups import client_of

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

FEATURE = "streams.version"
MOST_FAILURES_NAMED = 3
PAUSE_IN_HEARTBEATS = 2  # after a topic could not be created


def streams_group_heartbeat(
    broker: Broker, request: Request, message: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | None:
    missing: tuple[InternalTopic, ...] = ()

    def refuse(error: KafkaError) -> None:
        request.respond(_refused(error))

    def respond(response: StreamsGroupHeartbeatResponse) -> None:
        if missing and not response.error_code:
            _create(broker, response, missing)
        request.respond(response)

    def beat(shard: GroupShard, step: Step) -> None:
        nonlocal missing
        outcome = shard.streams.heartbeat(message, client_of(request), step)
        missing = outcome.missing
        step.answer(respond, outcome.response)

    if not is_enabled(broker.image, FEATURE):
        return _refused(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    try:
        check_heartbeat(message)
    except KafkaError as error:
        return _refused(error)
    broker.coordinators.groups.perform_or_explain(message.group_id, beat, refuse)
    return None


def _refused(error: KafkaError) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)


def _create(
    broker: Broker, response: StreamsGroupHeartbeatResponse, missing: tuple[InternalTopic, ...]
) -> None:
    """Have the topics created, and tell why that failed before, if it did."""
    topics = broker.coordinators.streams_topics
    topics.create(missing, response.heartbeat_interval_ms * PAUSE_IN_HEARTBEATS)
    failures = topics.failures(topic.name for topic in missing)
    for status in response.status or []:
        if failures and status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; Creation failed: {_summary(failures)}."


def _summary(failures: dict[str, str]) -> str:
    named = [f"{name} ({failure})" for name, failure in failures.items()]
    shown, more = ", ".join(named[:MOST_FAILURES_NAMED]), len(named) - MOST_FAILURES_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


# -- StreamsGroupDescribe -------------------------------------------------------------------------------


def streams_group_describe(
    broker: Broker, request: Request, message: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse | None:
    describe_each(
        broker,
        message.group_ids,
        lambda shard, group_id: described(shard.streams.find(group_id)),
        lambda found: request.respond(StreamsGroupDescribeResponse(groups=found)),
        answer_class=DescribedGroup,
        feature=FEATURE,
        with_operations=message.include_authorized_operations,
    )
    return None
