"""What decisions need to know of the settings, without knowing where settings come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from barnabas.cluster.image import MetadataImage, Resource, ResourceType


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
        """How many members an ISR needs; a topic cannot ask for more than it has replicas (KIP-966)."""
        value = self._setting(image, topic, "min.insync.replicas")
        return min(replicas, int(value) if value is not None else self.min_insync_replicas)

    def unclean_election_allowed(self, image: MetadataImage, topic: str) -> bool:
        value = self._setting(image, topic, "unclean.leader.election.enable")
        return value.lower() == "true" if value is not None else self.unclean_leader_election

    @staticmethod
    def _setting(image: MetadataImage, topic: str, name: str) -> str | None:
        """The topic's own value, else what was set for all brokers at run time."""
        all_brokers = image.configs.get(Resource(ResourceType.BROKER, ""), {})
        return image.topic_configs(topic).get(name, all_brokers.get(name))
