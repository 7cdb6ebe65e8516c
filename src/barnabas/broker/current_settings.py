"""Settings and metadata in use: what a new image changes in the components of a broker."""

from __future__ import annotations

from barnabas.broker.from_config import policy_from, replica_fetches_from
from barnabas.broker.parts import BrokerParts
from barnabas.broker.platform import Platform
from barnabas.cluster import ClusterConnection
from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import SystemClock
from barnabas.config.broker import BrokerConfig
from barnabas.config.log_settings import RACK_AWARE
from barnabas.network import limits_from, use_process_limits
from barnabas.network.requests import budget_from


class ConfiguredBroker(BrokerParts):
    """A broker whose components follow the dynamic settings."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        platform: Platform | None = None,
        cluster: ClusterConnection | None = None,
    ) -> None:
        super().__init__(config, platform=platform, cluster=cluster)
        self._use_config()

    def use(self, image: MetadataImage) -> None:
        """Switch to an image: ACLs, quotas and dynamic configs. Partitions follow in `_apply`."""
        self._access.follow(self.image, image)
        self.image = image
        if image.configs is not self._configs_in_use:
            self._must_use_config |= self.dynamic_config.update(image)
            if self._must_use_config:
                self._use_config()
            self._configs_in_use = image.configs  # last: if a component raised, the configs are applied again

    def _use_config(self) -> None:
        """Pass the dynamic settings to all components."""
        self._must_use_config = True
        config = self.config = self.dynamic_config.current
        self.policy = policy_from(config, self.dynamic_config.without_defaults)
        self.fetch_max_bytes = config["fetch.max.bytes"]
        self.reads_from_followers = config["replica.selector.class"] == RACK_AWARE
        self.durability.fsync = config["barnabas.acks.all.fsync"]
        if isinstance(self.clock, SystemClock):
            self.clock.expiry.longest_jump_ms = config["barnabas.clock.jump.ms"]
            self.clock.expiry.pause_ms = config["barnabas.clock.jump.pause.ms"]
        self._replica_fetches = replica_fetches_from(config)
        self._log_configs.use(config)
        self.logs.use_config(config)
        self.tiering.use_config(config)
        self.leader_throttle.rate = config["leader.replication.throttled.rate"]
        self.follower_throttles.listed.rate = config["follower.replication.throttled.rate"]
        self.follower_throttles.moving.rate = config["barnabas.reassignment.throttled.rate"]
        self.moves.throttle.rate = config["replica.alter.log.dirs.io.max.bytes.per.second"]
        self.sockets.use_limits(limits_from(config))
        self.authentication.use(config, self.sockets.listeners)
        self.sockets.tls.use(config)
        self.dispatcher.use_budget(budget_from(config))
        use_process_limits(config)
        self.dispatcher.slow_request_seconds = config["barnabas.slow.request.ms"] / 1000 or float("inf")
        self._must_use_config = False

    def end_revoked_sessions(self) -> None:
        self._access.end_revoked()
