"""Streams groups (KIP-1071): StreamsGroupHeartbeat 0 and 1, StreamsGroupDescribe 0 and 1,
StreamsGroupTopologyDescriptionUpdate 0.

- All need the feature `streams.version` 1, as in Kafka.
- Static members, warm-ups and patterns of source topics are in the protocol, but refused, as in Kafka 4.3.
- From version 1 on (KIP-1331) a member is asked for a description of the topology, which is stored with the group
  and returned by StreamsGroupDescribe. Kafka does not store it, and asks only if a plugin is configured.
- In version 1 members may report their task offsets (KAFKA-20719): a new group assigns tasks to members with state.
  AcceptableRecoveryLag stays -1, and MISSING_CLIENT_TAGS is never returned: warm-ups and standbys by tags are not
  supported.
- The response does not wait for the creation of internal topics: it reports the missing ones, and why creating them
  has failed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.features import STREAMS_VERSION, check_enabled
from barnabas.common.errors import KafkaError
from barnabas.groups import GroupCoordinator
from barnabas.groups.streams import (
    HeartbeatResult,
    InternalTopic,
    StreamsStatus,
    StreamsTopics,
    check_heartbeat,
    check_update,
    described,
)
from barnabas.handlers.groups.classic import client_of
from barnabas.handlers.groups.describe import describe_each
from barnabas.handlers.needs import HasImage
from barnabas.network.requests import access_of
from barnabas.protocol.messages.streams import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from barnabas.security import RequestContext
from barnabas.security.authz import Action, Operation, ResourceType

if TYPE_CHECKING:
    from barnabas.network.requests import Request

MAX_FAILURES_NAMED = 3
PAUSE_IN_HEARTBEATS = 2  # after a topic could not be created


class StreamsGroupCoordinators(Protocol):
    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def streams_topics(self) -> StreamsTopics: ...


class StreamsGroupNeeds(HasImage, Protocol):
    """Broker attributes used by streams groups."""

    @property
    def coordinators(self) -> StreamsGroupCoordinators: ...


def streams_group_heartbeat(
    broker: StreamsGroupNeeds,
    request: Request,
    message: StreamsGroupHeartbeatRequest,
) -> StreamsGroupHeartbeatResponse | None:
    coordinators = broker.coordinators
    try:
        check_enabled(broker.image, STREAMS_VERSION)
        check_heartbeat(message, request.version)
    except KafkaError as error:
        return _refused(error)
    done = partial(_respond, coordinators.streams_topics, request)
    coordinators.groups.streams_heartbeat(message, client_of(request), done, request.version)
    return None


def _refused(error: KafkaError) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)


def _respond(
    topics: StreamsTopics,
    request: Request,
    outcome: HeartbeatResult | KafkaError,
) -> None:
    if isinstance(outcome, KafkaError):
        request.respond(_refused(outcome))
        return
    response, missing = outcome
    access = access_of(request)
    denied = [topic.name for topic in missing if not access.allows_any(_creation(topic.name))]
    if denied:
        _add_detail(response, f"Unauthorized to CREATE on topics {', '.join(denied)}.")
    elif missing:
        _create(topics, response, missing, request.context)
    request.respond(response)


def _creation(topic: str) -> tuple[Action, ...]:
    """A streams group creates its internal topics as the member whose heartbeat finds them missing."""
    return Action(Operation.CREATE, ResourceType.CLUSTER), Action(Operation.CREATE, ResourceType.TOPIC, topic)


def _create(
    topics: StreamsTopics,
    response: StreamsGroupHeartbeatResponse,
    missing: tuple[InternalTopic, ...],
    context: RequestContext,
) -> None:
    """Create the topics, and report the failure of an earlier attempt."""
    topics.create(missing, response.heartbeat_interval_ms * PAUSE_IN_HEARTBEATS, context)
    failures = topics.failures(topic.name for topic in missing)
    if failures:
        _add_detail(response, f"Creation failed: {_summary(failures)}.")


def _add_detail(response: StreamsGroupHeartbeatResponse, text: str) -> None:
    for status in response.status or []:
        if status.status_code == StreamsStatus.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {text}"


def _summary(failures: dict[str, str]) -> str:
    named = [f"{name} ({failure})" for name, failure in failures.items()]
    shown, more = ", ".join(named[:MAX_FAILURES_NAMED]), len(named) - MAX_FAILURES_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


# -- StreamsGroupDescribe -------------------------------------------------------------------------------


def streams_group_describe(
    broker: StreamsGroupNeeds, request: Request, message: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse | None:
    describe_each(
        broker,
        message.group_ids,
        lambda shard, group_id: described(
            shard.streams.find(group_id), with_description=message.include_topology_description
        ),
        lambda found: request.respond(StreamsGroupDescribeResponse(groups=found)),
        answer_class=DescribedGroup,
        feature=STREAMS_VERSION,
        with_operations=message.include_authorized_operations,
    )
    return None


# -- StreamsGroupTopologyDescriptionUpdate --------------------------------------------------------------


def streams_group_topology_description_update(
    broker: StreamsGroupNeeds, request: Request, message: StreamsGroupTopologyDescriptionUpdateRequest
) -> StreamsGroupTopologyDescriptionUpdateResponse | None:
    groups = broker.coordinators.groups

    try:
        check_enabled(broker.image, STREAMS_VERSION)
        check_update(message, groups.settings.streams_description_max_bytes)
    except KafkaError as error:
        return _updated(error)
    groups.write(
        message.group_id,
        lambda shard: shard.streams.descriptions.update(message),
        lambda outcome: request.respond(_updated(outcome)),
    )
    return None


def _updated(outcome: KafkaError | None) -> StreamsGroupTopologyDescriptionUpdateResponse:
    if outcome is None:
        return StreamsGroupTopologyDescriptionUpdateResponse()
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=outcome.code, error_message=outcome.message or None
    )
