"""The type of every decision, a pure function of the image, and the settings that decisions use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from barnabas.cluster.deltas import Delta
from barnabas.cluster.image import ConfigResourceType, MetadataImage, Resource, effective_min_isr
from barnabas.common.errors import ErrorCode, KafkaError

T = TypeVar("T")

Decided: TypeAlias = tuple[list[Delta], T]
"""Deltas to store (none, if empty) and the result for the caller."""

Decision: TypeAlias = Callable[[MetadataImage], Decided[T]]


def accept_all(overrides: Mapping[str, str]) -> None:
    """A config check that accepts everything."""


@dataclass(frozen=True, slots=True)
class ControllerPolicy:
    """Broker settings that apply when the image has no override; named as in Kafka.

    `check_topic_configs` raises a KafkaError (INVALID_CONFIG) for invalid overrides.
    """

    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    check_topic_configs: Callable[[Mapping[str, str]], None] = accept_all

    def min_isr(self, image: MetadataImage, topic: str, replicas: int) -> int:
        """min.insync.replicas of a topic, at most the number of replicas."""
        value = self._setting(image, topic, "min.insync.replicas")
        configured = int(value) if value is not None else self.min_insync_replicas
        return effective_min_isr(configured, replicas)

    def unclean_election_allowed(self, image: MetadataImage, topic: str) -> bool:
        """True if unclean elections are automatic. Never for a tiered topic: a leader that lacks
        records would write others
        below the end of the remote log. Only an operator may decide that (ElectLeaders).
        """
        if image.topic_configs(topic).get("remote.storage.enable", "").lower() == "true":
            return False
        value = self._setting(image, topic, "unclean.leader.election.enable")
        return value.lower() == "true" if value is not None else self.unclean_leader_election

    @staticmethod
    def _setting(image: MetadataImage, topic: str, name: str) -> str | None:
        """The topic's value, otherwise the cluster-wide dynamic value."""
        all_brokers = image.configs.get(Resource(ConfigResourceType.BROKER, ""), {})
        return image.topic_configs(topic).get(name, all_brokers.get(name))


def check_room(room: int, what: str, setting: str) -> None:
    """Raise POLICY_VIOLATION if `room`, what the setting leaves, is used up."""
    if room < 0:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"too many {what} ({setting})")
