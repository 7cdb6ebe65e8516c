"""Share groups (KIP-932): ShareGroupHeartbeat 1, ShareGroupDescribe 1.

- Both need the feature `share.version` 1, as in Kafka.
- A partition can be assigned once it has state. The first member that joins creates it, and its response waits
  for that; in Kafka it does not, and the member starts to read one heartbeat later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.features import SHARE_VERSION, check_enabled
from barnabas.common.errors import KafkaError
from barnabas.groups import JOINING, GroupCoordinator
from barnabas.groups.share import ShareHeartbeatResult, ShareStates, check_heartbeat, described
from barnabas.handlers.groups.classic import client_of
from barnabas.handlers.groups.describe import describe_each
from barnabas.handlers.needs import HasImage
from barnabas.protocol.messages.share import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request


class ShareGroupCoordinators(Protocol):
    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def share_states(self) -> ShareStates: ...


class ShareGroupNeeds(HasImage, Protocol):
    """Broker attributes used by share groups."""

    @property
    def coordinators(self) -> ShareGroupCoordinators: ...


def share_group_heartbeat(
    broker: ShareGroupNeeds, request: Request, message: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | None:
    try:
        check_enabled(broker.image, SHARE_VERSION)
        check_heartbeat(message)
    except KafkaError as error:
        return _refused(error)
    if message.member_epoch == JOINING:
        _beat(broker, request, message, partial(_joined, broker, request, message))
    else:
        _beat(broker, request, message, lambda response, creates: request.respond(response))
    return None


def _beat(
    broker: ShareGroupNeeds,
    request: Request,
    message: ShareGroupHeartbeatRequest,
    respond: Callable[[ShareGroupHeartbeatResponse, bool], None],
) -> None:
    """Process one heartbeat; `respond` also gets whether it causes state to be created."""
    coordinators = broker.coordinators

    def answered(outcome: ShareHeartbeatResult | KafkaError) -> None:
        if isinstance(outcome, KafkaError):
            respond(_refused(outcome), False)
            return
        if outcome.missing:
            coordinators.share_states.create(message.group_id, outcome.state_epoch, outcome.missing)
        respond(outcome.response, bool(outcome.missing))

    coordinators.groups.share_heartbeat(message, client_of(request), answered)


def _joined(
    broker: ShareGroupNeeds,
    request: Request,
    message: ShareGroupHeartbeatRequest,
    response: ShareGroupHeartbeatResponse,
    creates: bool,
) -> None:
    """Respond to a member that has joined; while state of its partitions is created, a little later."""
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

    def retry() -> None:
        _beat(broker, request, again, lambda response, creates: request.respond(response))

    states.when_created(message.group_id, retry)


def _refused(error: KafkaError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)


# -- ShareGroupDescribe ---------------------------------------------------------------------------------


def share_group_describe(
    broker: ShareGroupNeeds, request: Request, message: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse | None:
    groups = broker.coordinators.groups
    describe_each(
        broker,
        message.group_ids,
        lambda shard, group_id: described(shard.share.find(group_id), groups.topics),
        lambda found: request.respond(ShareGroupDescribeResponse(groups=found)),
        answer_class=DescribedGroup,
        feature=SHARE_VERSION,
        with_operations=message.include_authorized_operations,
    )
    return None
