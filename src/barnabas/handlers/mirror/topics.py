"""Mirror topics: AlterMirrors, DescribeMirrors and SettleMirrors, each version 0. AppendMirrored is in `appends`.

These are Barnabas APIs (`protocol/messages/mirror`). The controller serves AlterMirrors, and SettleMirrors from
leaders. Any broker serves DescribeMirrors, with offsets of the partitions that it leads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.cluster import Aborted, MirrorPartition, MirrorTopic
from barnabas.cluster.image import PartitionState
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.controller import (
    MirrorChange,
    MirrorLink,
    PartitionChange,
    Results,
    Settled,
    alter_mirrors,
    settle_mirrors,
)
from barnabas.handlers.needs import HasController, HasImage, HasReplicas
from barnabas.network.requests import RequestTurn
from barnabas.protocol.messages.mirror import (
    AbortedTransaction,
    AlteredMirrorResult,
    AlteredMirrorTopic,
    AlterMirrorsRequest,
    AlterMirrorsResponse,
    DescribedMirrorPartition,
    DescribedMirrorTopic,
    DescribeMirrorsRequest,
    DescribeMirrorsResponse,
    MirrorState,
    SettledPartition,
    SettledResult,
    SettleMirrorsRequest,
    SettleMirrorsResponse,
)
from barnabas.replication import Mirrors

if TYPE_CHECKING:
    from barnabas.network.requests import Request

logger = safe_logger(__name__)


class AlterMirrorsNeeds(HasController, HasImage, Protocol):
    """Broker attributes used on the controller."""


class DescribeMirrorsNeeds(HasImage, HasReplicas, Protocol):
    """Broker attributes used by DescribeMirrors."""

    @property
    def mirrors(self) -> Mirrors: ...


# -- AlterMirrors --------------------------------------------------------------------------------------


async def alter_mirror_topics(
    broker: AlterMirrorsNeeds, request: Request, message: AlterMirrorsRequest
) -> AlterMirrorsResponse:
    link = MirrorLink(message.link, message.source_cluster_id, tuple(message.path))
    changes = await RequestTurn().collect(message.topics, _change)
    before = broker.image.mirrors
    results: Results
    try:
        results = await broker.controller.submit(
            lambda image: alter_mirrors(
                image, link, changes, broker.policy, validate_only=message.validate_only
            )
        )
    except KafkaError as error:
        results = {topic.name: error for topic in message.topics}
    for name, mirror in results.items():
        if isinstance(mirror, MirrorTopic) and not message.validate_only:
            _log_change(name, before.get(mirror.topic_id), mirror)
    return AlterMirrorsResponse(topics=[_altered(name, result) for name, result in results.items()])


def _change(topic: AlteredMirrorTopic) -> MirrorChange:
    return MirrorChange(
        topic.name,
        topic.action,
        topic.source_name,
        topic.source_topic_id,
        topic.num_partitions,
        topic.replication_factor,
        {config.name: config.value for config in topic.configs},
        topic.reason,
        [
            PartitionChange(
                each.index,
                each.min_leader_epoch,
                each.state,
                each.reason,
                each.promoted_at,
                each.promoted_epoch,
            )
            for each in topic.partitions
        ],
    )


def _altered(name: str, result: MirrorTopic | KafkaError) -> AlteredMirrorResult:
    if isinstance(result, KafkaError):
        return AlteredMirrorResult(name=name, error_code=result.code, error_message=result.message or None)
    return AlteredMirrorResult(name=name, topic_id=result.topic_id, state=result.state)


def _log_change(name: str, before: MirrorTopic | None, after: MirrorTopic) -> None:
    """Log state changes for operators: failures as errors, all other states once."""
    if before is None or before.state != after.state:
        level = logger.error if after.state == MirrorState.FAILED else logger.info
        level(
            "the mirror %s of %s in cluster %s is %s%s",
            name,
            after.source_name,
            after.source_cluster_id,
            MirrorState(after.state).name,
            f": {after.reason}" if after.reason else "",
        )
    for index, partition in enumerate(after.partitions):
        known = before.partition(index).failure if before is not None else ""
        if partition.failure and partition.failure != known:
            logger.error("%s-%d is no longer mirrored: %s", name, index, partition.failure)


# -- DescribeMirrors -----------------------------------------------------------------------------------


def describe_mirrors(
    broker: DescribeMirrorsNeeds, request: Request, message: DescribeMirrorsRequest
) -> DescribeMirrorsResponse:
    image = broker.image
    names = message.topics
    if names is None:
        names = sorted(image.topic_names_by_id[topic_id] for topic_id in image.mirrors)
    return DescribeMirrorsResponse(
        cluster_id=image.cluster_id,
        topics=[_described(broker, name, message.include_partitions) for name in dict.fromkeys(names)],
    )


def _described(broker: DescribeMirrorsNeeds, name: str, with_partitions: bool) -> DescribedMirrorTopic:
    mirror = broker.image.mirror_of(name)
    if mirror is None:
        is_known = name in broker.image.topics
        code = ErrorCode.RESOURCE_NOT_FOUND if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        error = KafkaError(code, f"{name} is not a mirror" if is_known else f"unknown topic {name}")
        return DescribedMirrorTopic(name=name, error_code=code, error_message=error.message)
    states = broker.image.topics[name].partitions if with_partitions else ()
    return DescribedMirrorTopic(
        name=name,
        topic_id=mirror.topic_id,
        link=mirror.link,
        source_cluster_id=mirror.source_cluster_id,
        path=list(mirror.path),
        source_name=mirror.source_name,
        source_topic_id=mirror.source_topic_id,
        state=mirror.state,
        reason=mirror.reason,
        partitions=[
            _described_partition(broker, name, index, state, mirror) for index, state in enumerate(states)
        ],
    )


def _described_partition(
    broker: DescribeMirrorsNeeds, name: str, index: int, state: PartitionState, mirror: MirrorTopic
) -> DescribedMirrorPartition:
    part = mirror.partition(index)
    described = DescribedMirrorPartition(
        index=index,
        state=MirrorState.FAILED if part.failure else mirror.state,
        reason=part.failure or mirror.reason,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
    )
    if mirror.is_own:
        _describe_promotion(described, part)
    partition = broker.replicas.find(name, index)
    if partition is not None and partition.is_leader:
        log = partition.log
        described.leader_epoch = partition.leader_epoch
        described.log_start_offset, described.log_end_offset = log.log_start_offset, log.log_end_offset
        described.high_watermark, described.last_epoch = log.high_watermark, log.epochs.latest
        described.source_high_watermark = broker.mirrors.source_ends.get(partition, -1)
    return described


def _describe_promotion(described: DescribedMirrorPartition, part: MirrorPartition) -> None:
    described.promoted_at, described.promoted_epoch = part.promoted_at, part.promoted_epoch
    described.aborted_transactions = [
        AbortedTransaction(each.producer_id, each.producer_epoch, each.first_offset) for each in part.aborted
    ]


# -- SettleMirrors -------------------------------------------------------------------------------------


async def settle_mirror_topics(
    broker: AlterMirrorsNeeds, request: Request, message: SettleMirrorsRequest
) -> SettleMirrorsResponse:
    reports = {topic.topic_id: [_settled(each) for each in topic.partitions] for topic in message.topics}
    before = broker.image.mirrors
    try:
        results = await broker.controller.submit(
            lambda image: settle_mirrors(image, message.broker_id, message.broker_epoch, reports)
        )
    except KafkaError as error:
        return SettleMirrorsResponse(error_code=error.code)
    for topic_id in results:
        after, name = broker.image.mirrors.get(topic_id), broker.image.topic_names_by_id.get(topic_id)
        if after is not None and name is not None:
            _log_change(name, before.get(topic_id), after)
    return SettleMirrorsResponse(topics=[SettledResult(topic_id, code) for topic_id, code in results.items()])


def _settled(each: SettledPartition) -> Settled:
    aborted = [
        Aborted(one.producer_id, one.producer_epoch, one.first_offset) for one in each.aborted_transactions
    ]
    return Settled(
        each.index,
        each.leader_epoch,
        each.promoted_at,
        each.promoted_epoch,
        each.end_offset,
        tuple(aborted),
    )
