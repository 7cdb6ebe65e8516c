"""The metadata image: the state of the cluster at one offset of the metadata log.

Images and everything in them are immutable. A new one is created only by `deltas.apply`, so every broker
that applied the same entries has an equal image, and a reference to an image never sees it change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSet
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import msgspec

from barnabas.cluster.mirrors import MirrorTopic
from barnabas.common.types import Uuid
from barnabas.security.authn import DelegationToken, ScramCredential
from barnabas.security.authz.acls import AclBinding
from barnabas.security.quotas.filters import QuotaEntity

NO_LEADER = -1
"""`leader` of a partition without one, as on the wire."""

NO_CONTROLLER = -1

RECOVERED = 0
RECOVERING = 1
"""Recovery state of a leader on the wire (KIP-704): elected uncleanly, and log not yet confirmed as recovered."""


class ConfigResourceType(IntEnum):
    """Owner of a set of configs, with Kafka's numbers (`ConfigResource.Type`)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    """Key of a set of configs. An empty broker name means the default of all brokers."""

    type: int
    name: str


class ScramUser(NamedTuple):
    """Key of a credential: a user has one per mechanism."""

    name: str
    mechanism: int


class Endpoint(msgspec.Struct, frozen=True, array_like=True):
    """Address of a broker's named listener."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class BrokerState(msgspec.Struct, frozen=True):
    """One registered broker.

    `epoch` grows with each registration, which distinguishes requests from before a restart. `host` is the machine
    (`barnabas.host`), for replica placement only. A fenced broker leads no partition and is not returned to clients.
    `node` is the id of the first process of a node with several processes, which share their log dirs; otherwise -1.
    """

    id: int
    epoch: int
    host: str = ""
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    fenced: bool = False
    shutting_down: bool = False
    features: dict[str, tuple[int, int]] = {}
    node: int = -1

    @property
    def can_lead(self) -> bool:
        return not self.fenced and not self.shutting_down


def effective_min_isr(configured: int, replicas: int) -> int:
    """Number of in-sync replicas that acks=all needs: at most the number of replicas, or writes could never succeed
    (KIP-966)."""
    return min(configured, replicas)


class PartitionState(msgspec.Struct, frozen=True, array_like=True):
    """Replicas and leader of a partition.

    The leader epoch rises when the leader may have changed; the partition epoch rises with every change.
    `elr` are replicas outside the ISR that have every acknowledged record (KIP-966);
    `last_known_elr` is the last leader while both ISR and ELR are empty.
    `leader_recovery_state` is RECOVERING from an unclean election until the leader alters the ISR.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0]

    @property
    def being_reassigned(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)


class TopicState(msgspec.Struct, frozen=True):
    name: str
    topic_id: Uuid
    partitions: tuple[PartitionState, ...]

    def partition(self, index: int) -> PartitionState | None:
        """Return the partition; None if it does not exist, also for a negative index."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class RemoteDeletion(msgspec.Struct, frozen=True):
    """Remote objects that are still to be deleted, of a topic that was deleted or is no longer tiered."""

    topic_id: Uuid
    name: str
    partitions: int


Configs: TypeAlias = Mapping[Resource, Mapping[str, str]]


class MetadataImage(msgspec.Struct, frozen=True):
    """State of the cluster. `offset` is the number of applied metadata log entries; 0 is the empty cluster."""

    offset: int = 0
    cluster_id: str = ""
    controller_id: int = NO_CONTROLLER
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerState] = {}
    topics: Mapping[str, TopicState] = {}
    topic_names_by_id: Mapping[Uuid, str] = {}
    configs: Configs = {}
    features: Mapping[str, int] = {}
    next_producer_id: int = 0
    acls: frozenset[AclBinding] = frozenset()
    scram_credentials: Mapping[ScramUser, ScramCredential] = {}
    scram_decoy_key: bytes = b""
    """Secret of the brokers from which they derive salts for unknown users, so that all return the same salt."""
    delegation_tokens: Mapping[str, DelegationToken] = {}
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
    remote_deletions: Mapping[Uuid, RemoteDeletion] = {}
    mirrors: Mapping[Uuid, MirrorTopic] = {}
    """By the topic id in this cluster."""
    incarnation: int = 0
    """Number of restores from an object store; the store rejects writes of earlier incarnations."""

    def topic_by_id(self, topic_id: Uuid) -> TopicState | None:
        name = self.topic_names_by_id.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, index: int) -> PartitionState | None:
        state = self.topics.get(topic)
        return None if state is None else state.partition(index)

    def partitions(self) -> Iterator[tuple[TopicState, int, PartitionState]]:
        for topic in self.topics.values():
            for index, partition in enumerate(topic.partitions):
                yield topic, index, partition

    def can_lead(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.can_lead

    def mirror_of(self, topic: str) -> MirrorTopic | None:
        state = self.topics.get(topic) if self.mirrors else None
        return None if state is None else self.mirrors.get(state.topic_id)

    def topic_configs(self, topic: str) -> Mapping[str, str]:
        """Configs set on the topic, without defaults."""
        return self.configs.get(Resource(ConfigResourceType.TOPIC, topic), {})


EMPTY_IMAGE = MetadataImage()


# -- Draft: a mutable copy of an image, to which deltas are applied ------------------------------------


class Draft:
    """A changed image, copy on write: a mapping is copied on its first change."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._changes: dict[str, Any] = {}

    def finish(self, offset: int) -> MetadataImage:
        if "acls" in self._changes:
            self._changes["acls"] = frozenset(self._changes["acls"])
        return msgspec.structs.replace(self._image, offset=offset, **self._changes)

    def set(self, field: str, value: object) -> None:
        self._changes[field] = value

    def _own(self, field: str) -> Any:
        if field not in self._changes:
            self._changes[field] = dict(getattr(self._image, field))
        return self._changes[field]

    def name_of(self, topic_id: Uuid) -> str:
        """Return a topic name without copying the mapping: partitions change often, names rarely."""
        names: Mapping[Uuid, str] = self._changes.get("topic_names_by_id", self._image.topic_names_by_id)
        return names[topic_id]

    @property
    def brokers(self) -> dict[int, BrokerState]:
        return self._own("brokers")  # type: ignore[no-any-return]

    @property
    def topics(self) -> dict[str, TopicState]:
        return self._own("topics")  # type: ignore[no-any-return]

    @property
    def names(self) -> dict[Uuid, str]:
        return self._own("topic_names_by_id")  # type: ignore[no-any-return]

    @property
    def configs(self) -> dict[Resource, Mapping[str, str]]:
        return self._own("configs")  # type: ignore[no-any-return]

    @property
    def features(self) -> dict[str, int]:
        return self._own("features")  # type: ignore[no-any-return]

    @property
    def acls(self) -> MutableSet[AclBinding]:
        if "acls" not in self._changes:
            self._changes["acls"] = set(self._image.acls)
        return self._changes["acls"]  # type: ignore[no-any-return]

    @property
    def scram_credentials(self) -> dict[ScramUser, ScramCredential]:
        return self._own("scram_credentials")  # type: ignore[no-any-return]

    @property
    def delegation_tokens(self) -> dict[str, DelegationToken]:
        return self._own("delegation_tokens")  # type: ignore[no-any-return]

    @property
    def client_quotas(self) -> dict[QuotaEntity, Mapping[str, float]]:
        return self._own("client_quotas")  # type: ignore[no-any-return]

    @property
    def remote_deletions(self) -> dict[Uuid, RemoteDeletion]:
        return self._own("remote_deletions")  # type: ignore[no-any-return]

    @property
    def mirrors(self) -> dict[Uuid, MirrorTopic]:
        return self._own("mirrors")  # type: ignore[no-any-return]

    def forget_mirror(self, topic_id: Uuid) -> None:
        if topic_id in self._changes.get("mirrors", self._image.mirrors):
            del self.mirrors[topic_id]
