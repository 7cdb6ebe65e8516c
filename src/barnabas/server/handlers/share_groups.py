"""Share groups (KIP-932): ShareGroupHeartbeat 1, ShareGroupDescribe 1.

- Both need the feature `share.version` 1, as with Kafka.
- A partition can be assigned when there is state for it. A member that joins first has that created, and its answer
  waits for it; Kafka's does not, and the member starts to read one heartbeat later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.groups.modern import JOINING
from barnabas.groups.shard import GroupShard
from barnabas.groups.share.describe import described
from barnabas.groups.share.heartbeats import check_heartbeat
from barnabas.groups.share.state_partitions import Partitions
from barnabas.groups.step import Step
from barnabas.protocol.messages.share import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from barnabas.server.describing import describe_each
from barnabas.server.features import is_enabled
from barnabas.server.handlers.groups import client_of

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

FEATURE = "share.version"


def share_group_heartbeat(
    broker: Broker, request: Request, message: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | None:
    if not is_enabled(broker.image, FEATURE):
        return _refused(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    try:
        check_heartbeat(message)
    except KafkaError as error:
        return _refused(error)
    if message.member_epoch == JOINING:
        _beat(broker, request, message, partial(_joined, broker, request, message))
    else:
        _beat(broker, request, message, lambda response, creates: request.respond(response))
    return None


def _beat(
    broker: Broker,
    request: Request,
    message: ShareGroupHeartbeatRequest,
    respond: Callable[[ShareGroupHeartbeatResponse, bool], None],
) -> None:
    """One heartbeat; `respond` is also told whether state is being created because of it."""
    wanted: list[tuple[int, Partitions]] = []

    def beat(shard: GroupShard, step: Step) -> None:
        shard.share.heartbeats.handle(
            message,
            client_of(request),
            answered,
            step,
            lambda epoch, missing: wanted.append((epoch, missing)),
        )

    def answered(response: ShareGroupHeartbeatResponse) -> None:
        if not response.error_code:
            for epoch, missing in wanted:
                broker.coordinators.share_states.create(message.group_id, epoch, missing)
        respond(response, bool(wanted))

    broker.coordinators.groups.perform_or_explain(
        message.group_id, beat, lambda error: respond(_refused(error), False)
    )


def _joined(
    broker: Broker,
    request: Request,
    message: ShareGroupHeartbeatRequest,
    response: ShareGroupHeartbeatResponse,
    creates: bool,
) -> None:
    """Answer a member that has joined; while state is created for what it shall read, a little later."""
    states = broker.coordinators.share_states
    if response.error_code or not (creates or states.is_creating(message.group_id)):
        request.respond(response)
        return
    again = ShareGroupHeartbeatRequest(
        group_id=message.group_id,
        member_id=message.member_id,
        member_epoch=response.member_epoch,
        subscribed_topic_names=message.subscribed_topic_names,
    )

    def beat_again() -> None:
        _beat(broker, request, again, lambda response, creates: request.respond(response))

    states.when_created(message.group_id, beat_again)


def _refused(error: KafkaError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)


# -- ShareGroupDescribe ---------------------------------------------------------------------------------


def share_group_describe(
    broker: Broker, request: Request, message: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse | None:
    groups = broker.coordinators.groups
    describe_each(
        broker,
        message.group_ids,
        lambda shard, group_id: described(shard.share.find(group_id), groups.topics),
        lambda found: request.respond(ShareGroupDescribeResponse(groups=found)),
        answer_class=DescribedGroup,
        feature=FEATURE,
        with_operations=message.include_authorized_operations,
    )
    return None
