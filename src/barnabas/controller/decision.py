"""The shape of every decision, a pure function of the image, and what decisions know of the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from barnabas.cluster.deltas import Delta
from barnabas.cluster.image import MetadataImage, Resource, ResourceType, effective_min_isr
from barnabas.common.errors import ErrorCode, KafkaError

T = TypeVar("T")

Decided: TypeAlias = tuple[list[Delta], T]
"""What is to be stored (nothing, if empty) and what the caller is told."""

Decision: TypeAlias = Callable[[MetadataImage], Decided[T]]


def accept_all(overrides: Mapping[str, str]) -> None:
    """A check of topic overrides that finds nothing wrong."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of a broker that stand behind those in the image; names as in Kafka's settings.

    `check_topic_configs` raises a KafkaError (INVALID_CONFIG) for overrides that cannot be set.
    """

    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    check_topic_configs: Callable[[Mapping[str, str]], None] = accept_all

    def min_isr(self, image: MetadataImage, topic: str, replicas: int) -> int:
        """How many members an ISR needs for acks=all."""
        value = self._setting(image, topic, "min.insync.replicas")
        configured = int(value) if value is not None else self.min_insync_replicas
        return effective_min_isr(configured, replicas)

    def unclean_election_allowed(self, image: MetadataImage, topic: str) -> bool:
        """By itself. Never for a tiered topic: a leader that lacks records would write others below the end of what is
        copied. Only an operator decides that (ElectLeaders)."""
        if image.topic_configs(topic).get("remote.storage.enable", "").lower() == "true":
            return False
        value = self._setting(image, topic, "unclean.leader.election.enable")
        return value.lower() == "true" if value is not None else self.unclean_leader_election

    @staticmethod
    def _setting(image: MetadataImage, topic: str, name: str) -> str | None:
        """The topic's own value, else what was set for all brokers at run time."""
        all_brokers = image.configs.get(Resource(ResourceType.BROKER, ""), {})
        return image.topic_configs(topic).get(name, all_brokers.get(name))


def check_room(room: int, what: str, setting: str) -> None:
    """POLICY_VIOLATION when something new is more than a setting allows: `room` is what is left with it."""
    if room < 0:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"there are as many {what} as {setting} allows")
