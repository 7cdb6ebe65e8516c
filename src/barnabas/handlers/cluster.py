"""Cluster administration: brokers, leaders, reassignments and features.

- DescribeCluster, versions 0 to 2. Version 1 can ask for controllers, which this is not (KIP-919); version 2
  for brokers that are fenced.
- UnregisterBroker, version 0.
- ElectLeaders, versions 0 to 2. Version 0 knows preferred leaders only.
- AlterPartitionReassignments, versions 0 and 1, and ListPartitionReassignments, version 0.
- UpdateFeatures, versions 0 to 2. All updates of a request are made, or none.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from barnabas.cluster.image import PartitionState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import TopicPartition
from barnabas.controller import (
    Election,
    FeatureUpdate,
    UpgradeType,
    brokers,
    elections,
    features,
    reassignment,
)
from barnabas.handlers.endpoints import ALL_OF_CLUSTER, NOT_ASKED_FOR, endpoints_for, fenced_endpoints
from barnabas.handlers.needs import HasController, HasFeatures, IsMember
from barnabas.protocol.messages.cluster import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    FeatureUpdateKey,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from barnabas.network.requests import Request

BROKERS, CONTROLLERS = 1, 2
"""Endpoint types of DescribeCluster."""


class ClusterNeeds(HasController, HasFeatures, IsMember, Protocol):
    """Broker attributes used by the cluster handlers."""

    registry_address: str


# -- brokers -------------------------------------------------------------------------------------------


def describe_cluster(
    broker: ClusterNeeds, request: Request, message: DescribeClusterRequest
) -> DescribeClusterResponse:
    if message.endpoint_type != BROKERS:
        return _wrong_endpoint(message.endpoint_type)
    shown = [DescribeClusterBroker(*endpoint) for endpoint in endpoints_for(broker, request.connection)]
    if message.include_fenced_brokers:
        listener = request.connection.listener.name
        shown += [
            DescribeClusterBroker(*endpoint, is_fenced=True)
            for endpoint in fenced_endpoints(broker.image, listener)
        ]
    return DescribeClusterResponse(
        cluster_id=broker.image.cluster_id,
        controller_id=broker.image.controller_id,
        brokers=shown,
        cluster_authorized_operations=(
            ALL_OF_CLUSTER if message.include_cluster_authorized_operations else NOT_ASKED_FOR
        ),
        barnabas_registry=broker.registry_address,
    )


def _wrong_endpoint(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=(
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
                "CONTROLLER"
            ),
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"Unsupported endpoint type {endpoint_type}",
    )


async def unregister_broker(
    broker: ClusterNeeds, request: Request, message: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    try:
        await broker.controller.submit(
            lambda image: brokers.unregister(image, message.broker_id, broker.policy)
        )
    except KafkaError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or None)
    return UnregisterBrokerResponse(error_message=None)


# -- leaders -------------------------------------------------------------------------------------------


async def elect_leaders(
    broker: ClusterNeeds, request: Request, message: ElectLeadersRequest
) -> ElectLeadersResponse:
    requested = message.topic_partitions
    wanted = (
        None
        if requested is None
        else [TopicPartition(topic.topic, index) for topic in requested for index in topic.partitions]
    )
    try:
        election = _election(message.election_type)
        results = await broker.controller.submit(
            lambda image: elections.elect_leaders(image, wanted, election, broker.policy)
        )
    except KafkaError as error:
        return _elections(dict.fromkeys(wanted or (), error), error.code)
    return _elections(results, topics=broker.image.topics if wanted is None else ())


def _election(number: int) -> Election:
    if number not in (Election.PREFERRED, Election.UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {number}")
    return Election(number)


def _elections(
    results: dict[TopicPartition, KafkaError | None],
    error_code: ErrorCode = ErrorCode.NONE,
    topics: Iterable[str] = (),
) -> ElectLeadersResponse:
    """Group results by topic; `topics` are included even without results."""
    by_topic: dict[str, list[PartitionResult]] = {topic: [] for topic in topics}
    for (topic, index), error in results.items():
        by_topic.setdefault(topic, []).append(PartitionResult(index, *_code_and_text(error)))
    return ElectLeadersResponse(
        error_code=error_code,
        replica_election_results=[ReplicaElectionResult(*item) for item in by_topic.items()],
    )


# -- reassignment --------------------------------------------------------------------------------------


async def alter_partition_reassignments(
    broker: ClusterNeeds, request: Request, message: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    targets = [
        (TopicPartition(topic.name, partition.partition_index), partition.replicas)
        for topic in message.topics
        for partition in topic.partitions
    ]
    allow = message.allow_replication_factor_change
    try:
        results = await broker.controller.submit(
            lambda image: reassignment.alter_reassignments(
                image, targets, broker.policy, allow_replication_factor_change=allow
            )
        )
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=allow,
            error_code=error.code,
            error_message=error.message or None,
        )
    by_topic: dict[str, list[ReassignablePartitionResponse]] = {}
    for ((topic, index), _), error_or_none in zip(targets, results, strict=True):
        row = ReassignablePartitionResponse(index, *_code_and_text(error_or_none))
        by_topic.setdefault(topic, []).append(row)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allow,
        error_message=None,
        responses=[ReassignableTopicResponse(*item) for item in by_topic.items()],
    )


def list_partition_reassignments(
    broker: ClusterNeeds, request: Request, message: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    requested = message.topics
    wanted = (
        None
        if requested is None
        else [TopicPartition(topic.name, index) for topic in requested for index in topic.partition_indexes]
    )
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for (topic, index), state in reassignment.list_reassignments(broker.image, wanted).items():
        by_topic.setdefault(topic, []).append(_ongoing(index, state))
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[OngoingTopicReassignment(*item) for item in by_topic.items()],
    )


def _ongoing(index: int, state: PartitionState) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        index, list(state.replicas), list(state.adding_replicas), list(state.removing_replicas)
    )


# -- features ------------------------------------------------------------------------------------------


async def update_features(
    broker: ClusterNeeds, request: Request, message: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    named = {update.feature: update for update in message.feature_updates}  # the last one counts, as in Kafka
    enough = len(broker.supported_features) + 1  # one of so many is not supported, which rejects them all
    try:
        problem = await broker.controller.submit(
            lambda image: features.update_features(
                image,
                [_feature_update(update, request.version) for update in islice(named.values(), enough)],
                broker.supported_features,
                validate_only=message.validate_only,
            )
        )
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message or None)
    if problem is not None:
        return UpdateFeaturesResponse(
            error_code=problem.code,
            error_message=(
                "The update failed for all features since the following feature had an error: "
                f"{problem.message}"
            ),
        )
    return UpdateFeaturesResponse(
        error_message=None,
        results=[UpdatableFeatureResult(name, error_message=None) for name in named],
    )


def _feature_update(update: FeatureUpdateKey, version: int) -> FeatureUpdate:
    if version == 0 and update.allow_downgrade:
        return FeatureUpdate(update.feature, update.max_version_level, UpgradeType.SAFE_DOWNGRADE)
    return FeatureUpdate(update.feature, update.max_version_level, update.upgrade_type)


def _code_and_text(error: KafkaError | None) -> tuple[int, str | None]:
    return (ErrorCode.NONE, None) if error is None else (error.code, error.message or None)
