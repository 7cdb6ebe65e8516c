"""Consumer groups (KIP-848): ConsumerGroupHeartbeat 0 and 1, ConsumerGroupDescribe 0 and 1.

- Both need the feature `group.version` 1, as in Kafka.
- Heartbeat: in version 0 the coordinator assigns the member id; since version 1 the client
  generates it, so that a lost response does not leave an orphaned member. Version 1 also has subscriptions by pattern.
- Describe: version 1 marks members that still use the classic protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.features import GROUP_VERSION, check_enabled
from barnabas.common.errors import KafkaError
from barnabas.groups.consumer import check_heartbeat, described
from barnabas.handlers.groups.classic import client_of
from barnabas.handlers.groups.describe import describe_each
from barnabas.handlers.needs import HasGroups, HasImage
from barnabas.protocol.messages.consumer import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request


class ConsumerGroupNeeds(HasGroups, HasImage, Protocol):
    """Broker attributes used by consumer groups."""


def consumer_group_heartbeat(
    broker: ConsumerGroupNeeds,
    request: Request,
    message: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse | None:
    groups = broker.coordinators.groups
    try:
        check_enabled(broker.image, GROUP_VERSION)
        check_heartbeat(message, request.version, groups.settings.assignors)
    except KafkaError as error:
        return _refused(error)
    groups.consumer_heartbeat(message, client_of(request), request.respond, _refused)
    return None


def _refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)


# -- ConsumerGroupDescribe ------------------------------------------------------------------------------


def consumer_group_describe(
    broker: ConsumerGroupNeeds, request: Request, message: ConsumerGroupDescribeRequest
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
        feature=GROUP_VERSION,
        with_operations=message.include_authorized_operations,
    )
    return None
