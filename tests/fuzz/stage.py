"""Resources on the broker before fuzzing, recreated when frames have deleted them."""

from __future__ import annotations

from random import Random

from barnabas.protocol.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.metadata import FindCoordinatorRequest, MetadataRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.transactions import InitProducerIdRequest
from barnabas.protocol.schema import Message
from tests.fuzz.batches import Batches
from tests.fuzz.driving import Target
from tests.fuzz.judging import read_answers
from tests.fuzz.seeds import frame
from tests.fuzz.variants import PLAIN
from tests.fuzz.world import GROUPS, TOPICS, TRANSACTIONAL_IDS, World

TIMEOUT_SECONDS = 5.0
COMPACTED = [CreatableTopicConfig(name="cleanup.policy", value="compact")]


def prepare(target: Target, world: World) -> None:
    """Topics, coordinators, transactional ids, members; their ids and epochs are learnt from the answers."""
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=count,
            replication_factor=1,
            configs=COMPACTED if name == "compacted" else [],
        )
        for name, count in TOPICS.items()
    ]
    _send(target, world, CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
    _send(target, world, FindCoordinatorRequest(key_type=0, coordinator_keys=list(GROUPS)), 4)
    _send(target, world, FindCoordinatorRequest(key_type=1, coordinator_keys=list(TRANSACTIONAL_IDS)), 4)
    for name in TRANSACTIONAL_IDS:
        _send(target, world, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 5)
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"\x00\x01\x00\x00\x00\x00")
    joining = JoinGroupRequest(
        group_id=GROUPS[0],
        session_timeout_ms=6000,
        rebalance_timeout_ms=100,
        protocol_type="consumer",
        protocols=[protocol],
    )
    _send(target, world, joining, 3)
    _send(target, world, MetadataRequest(topics=None), 12)
    _send(target, world, _records(), 9)
    target.cost()


def refresh(target: Target, world: World) -> None:
    """Recreate resources deleted by frames."""
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in TOPICS.items()
    ]
    _send(target, world, CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
    _send(target, world, MetadataRequest(topics=[]), 12)


def _records() -> ProduceRequest:
    good = Batches(Random(1), 0).draw(Random(1), World())
    partitions = [PartitionProduceData(index=index, records=good) for index in range(3)]
    return ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="known", partition_data=partitions)]
    )


def _send(target: Target, world: World, message: Message, version: int) -> None:
    sent, variant, target.variant = [frame(message, version)], target.variant, PLAIN
    talk = target.exchange(sent, quiet=TIMEOUT_SECONDS)
    target.variant = variant
    for _, answer in read_answers(sent, talk.answers):
        if isinstance(answer, Message):
            world.learn(answer)
