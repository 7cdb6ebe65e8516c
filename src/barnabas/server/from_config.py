"""What a broker makes of its configuration."""

from __future__ import annotations

from barnabas.config.broker import BrokerConfig
from barnabas.config.validation import check_topic_configs
from barnabas.controller.policy import Policy
from barnabas.replication.fetcher import FetchSettings
from barnabas.server.listener import Listener


def listeners_from(config: BrokerConfig, *, is_alone: bool) -> list[Listener]:
    """A node alone has no peers, and lets nobody ask what only they may."""
    for_brokers = frozenset() if is_alone else config.listeners_for_brokers
    advertised = {spec.name: (spec.host, spec.port) for spec in config.advertised_listeners}
    return [
        Listener(
            spec.name,
            spec.host,
            spec.port,
            advertised=advertised.get(spec.name),
            security_protocol=spec.security_protocol,
            backlog=config["socket.listen.backlog.size"],
            receive_buffer=config["socket.receive.buffer.bytes"],
            send_buffer=config["socket.send.buffer.bytes"],
            serves_brokers=spec.name in for_brokers,
        )
        for spec in config.listeners
    ]


def policy_from(config: BrokerConfig, own: BrokerConfig) -> Policy:
    """`own` is without what was set for all brokers: decisions look for that in the image they are taken on."""
    return Policy(
        num_partitions=config["num.partitions"],
        default_replication_factor=config["default.replication.factor"],
        min_insync_replicas=own["min.insync.replicas"],
        unclean_leader_election=own["unclean.leader.election.enable"],
        check_topic_configs=check_topic_configs,
    )


def replica_fetches_from(config: BrokerConfig) -> FetchSettings:
    return FetchSettings(
        config["replica.fetch.wait.max.ms"],
        config["replica.fetch.min.bytes"],
        config["replica.fetch.response.max.bytes"],
        config["replica.fetch.max.bytes"],
        config["replica.fetch.backoff.ms"] / 1000,
    )
