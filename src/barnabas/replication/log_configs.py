"""Log settings of each topic. Topics with equal settings, usually the defaults, share one LogConfig."""

from __future__ import annotations

from collections.abc import Collection

from barnabas.cluster.image import MetadataImage
from barnabas.common.types import TopicPartition, Uuid
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig, topic_log_config

MAX_KEPT = 1000


class LogConfigs:
    def __init__(self, config: BrokerConfig) -> None:
        self.use(config)

    def use(self, config: BrokerConfig) -> None:
        """Replace the broker's settings, which are the defaults of topics."""
        self._config = config
        self._known: dict[frozenset[tuple[str, str]], LogConfig] = {}

    def of(self, image: MetadataImage, topic: str) -> LogConfig:
        overrides = image.topic_configs(topic)
        key = frozenset(overrides.items())
        if (known := self._known.get(key)) is None:
            if len(self._known) >= MAX_KEPT:
                self._known.clear()
            known = self._known[key] = topic_log_config(self._config, overrides)
        return known

    def expected(
        self, image: MetadataImage, brokers: Collection[int], tp: TopicPartition, topic_id: Uuid | None
    ) -> LogConfig | None:
        """The config of a log that belongs to one of `brokers`, which this process is or replaces; None if its topic or
        replica is not assigned here."""
        topic = image.topics.get(tp.topic)
        if topic is None or tp.partition >= len(topic.partitions):
            return None
        if topic_id is not None and topic_id != topic.topic_id:
            return None
        if not any(each in brokers for each in topic.partitions[tp.partition].replicas):
            return None  # it was moved to another broker while this one was down
        return self.of(image, tp.topic)
