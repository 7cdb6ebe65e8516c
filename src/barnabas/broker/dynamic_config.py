"""Effective configuration: the broker's properties, overridden by dynamic configs from the metadata (KIP-226)."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.cluster.image import ConfigResourceType, MetadataImage, Resource
from barnabas.common.safe_logging import safe_logger
from barnabas.config.broker import BrokerConfig

logger = safe_logger(__name__)


class DynamicConfig:
    def __init__(self, static: BrokerConfig) -> None:
        self.static = static
        self.current = static
        self.without_defaults = static
        """Excludes cluster-wide defaults: the controller reads those from the image it decides on."""
        self._dynamic: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})

    def update(self, image: MetadataImage) -> bool:
        """Apply the broker configs of an image, and return True if they changed. Topic configs are ignored."""
        dynamic = (
            image.configs.get(Resource(ConfigResourceType.BROKER, str(self.static.node_id)), {}),
            image.configs.get(Resource(ConfigResourceType.BROKER, ""), {}),
        )
        if dynamic == self._dynamic:
            return False
        self._dynamic = dynamic
        self.current = self.static.with_dynamic(*dynamic)
        self.without_defaults = self.static.with_dynamic(dynamic[0], {})
        return True

    def warn_about_overridden(self) -> None:
        for name, (ours, cluster_value) in self.current.overridden.items():
            logger.warning(
                "%s=%s in this broker's properties has no effect: the cluster uses %s. To change it for all brokers: "
                "barnabas configs set broker default %s=%s",
                *(name, ours, cluster_value, name, ours),
            )
