"""Consumer groups (KIP-848): ConsumerGroupHeartbeat 0 and 1, ConsumerGroupDescribe 0 and 1.

- Both need the feature `group.version` 1, as with Kafka.
- Heartbeat: in version 0 the coordinator gives a member its id; since version 1 the client brings it along, so
  that a lost answer does not leave a member behind that nobody is. Version 1 also has subscriptions by pattern.
- Describe: version 1 tells which members still use the classic protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.groups.consumer.checks import check_heartbeat
from barnabas.groups.consumer.describe import described
from barnabas.groups.shard import GroupShard
from barnabas.groups.step import Step
from barnabas.protocol.messages.consumer import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedGroup,
)
from barnabas.server.describing import describe_each
from barnabas.server.features import is_enabled
from barnabas.server.handlers.groups import client_of

if TYPE_CHECKING:
    from barnabas.server.broker import Broker
    from barnabas.server.dispatch import Request

FEATURE = "group.version"


def consumer_group_heartbeat(
    broker: Broker, request: Request, message: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | None:
    groups = broker.coordinators.groups

    def beat(shard: GroupShard, step: Step) -> None:
        shard.consumer.heartbeats.handle(message, client_of(request), request.respond, step)

    def refuse(error: KafkaError) -> None:
        request.respond(_refused(error))

    if not is_enabled(broker.image, FEATURE):
        return _refused(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    try:
        check_heartbeat(message, request.version, groups.settings.assignors)
    except KafkaError as error:
        return _refused(error)
    groups.perform_or_explain(message.group_id, beat, refuse)
    return None


def _refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)


# -- ConsumerGroupDescribe ------------------------------------------------------------------------------


def consumer_group_describe(
    broker: Broker, request: Request, message: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | None:
    groups = broker.coordinators.groups
    describe_each(
        broker,
        message.group_ids,
        lambda shard, group_id: described(
            shard.consumer.find(group_id), groups.topics, groups.settings.assignors
        ),
        lambda found: request.respond(ConsumerGroupDescribeResponse(groups=found)),
        answer_class=DescribedGroup,
        feature=FEATURE,
        with_operations=message.include_authorized_operations,
    )
    return None
