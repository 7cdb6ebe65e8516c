"""Components of a broker built from its configuration."""

from __future__ import annotations

from barnabas.broker.security.inter_broker import IsBroker
from barnabas.broker.security.tls import secured
from barnabas.common.clock import Clock
from barnabas.config.broker import BrokerConfig
from barnabas.config.validation import check_topic_configs
from barnabas.controller import ControllerPolicy
from barnabas.handlers import HANDLERS
from barnabas.handlers.telemetry import ClientTelemetry, TelemetryLimits
from barnabas.metrics import Registry, RequestMetrics
from barnabas.network import Listener, TlsListeners
from barnabas.network.requests import Dispatcher, RequestSecurity, budget_from
from barnabas.replication import FetchSessions, ReplicaFetchSettings
from barnabas.security.authz import ALLOW_ALL, AuditLog, Authorizer, StandardAuthorizer
from barnabas.security.authz import Policy as AuthorizationPolicy
from barnabas.security.quotas import QuotaLimits, Windows


def listeners_from(config: BrokerConfig, tls: TlsListeners, *, is_alone: bool) -> list[Listener]:
    """Return the listeners. A standalone node has no peers and rejects inter-broker requests."""
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
            **secured(tls, spec.name),
        )
        for spec in config.listeners
    ]


def policy_from(config: BrokerConfig, own: BrokerConfig) -> ControllerPolicy:
    """`own` excludes cluster-wide defaults: the controller reads those from the image it decides on."""
    return ControllerPolicy(
        num_partitions=config["num.partitions"],
        default_replication_factor=config["default.replication.factor"],
        min_insync_replicas=own["min.insync.replicas"],
        unclean_leader_election=own["unclean.leader.election.enable"],
        check_topic_configs=lambda configs: check_topic_configs(configs, config),
    )


def replica_fetches_from(config: BrokerConfig) -> ReplicaFetchSettings:
    return ReplicaFetchSettings(
        config["replica.fetch.wait.max.ms"],
        config["replica.fetch.min.bytes"],
        config["replica.fetch.response.max.bytes"],
        config["replica.fetch.max.bytes"],
        config["replica.fetch.backoff.ms"] / 1000,
    )


def authorizer_from(config: BrokerConfig, brokers: frozenset[str]) -> StandardAuthorizer | None:
    """Return None if authorization is disabled. `brokers`: the principals of the cluster's brokers."""
    if not config["authorizer.class.name"]:
        return None
    named = (name.strip() for name in config["super.users"].split(";"))
    is_open = config["allow.everyone.if.no.acl.found"]
    return StandardAuthorizer(AuthorizationPolicy(frozenset(filter(None, named)), is_open, brokers))


def dispatcher_from(
    config: BrokerConfig,
    broker: object,
    metrics: Registry,
    authorizer: Authorizer | None,
    audit: AuditLog | None,
    is_broker: IsBroker,
) -> Dispatcher:
    """`broker` is passed to the handlers and implements all of their protocols."""
    return Dispatcher(
        broker,
        HANDLERS,
        RequestMetrics(metrics),
        slow_request_seconds=config["barnabas.slow.request.ms"] / 1000,
        budget=budget_from(config),
        security=RequestSecurity(authorizer or ALLOW_ALL, audit=audit, is_broker=is_broker),
    )


def fetch_sessions_from(config: BrokerConfig, clock: Clock) -> FetchSessions:
    return FetchSessions(
        config["max.incremental.fetch.session.cache.slots"],
        clock,
        config["barnabas.fetch.session.max.partitions"],
    )


def quota_limits_from(config: BrokerConfig) -> QuotaLimits:
    return QuotaLimits(
        Windows(config["quota.window.num"], config["quota.window.size.seconds"]),
        Windows(config["controller.quota.window.num"], config["controller.quota.window.size.seconds"]),
        config["barnabas.quotas.max.clients"],
        config["barnabas.quotas.max.series"],
    )


def telemetry_from(config: BrokerConfig, clock: Clock) -> ClientTelemetry:
    limits = TelemetryLimits(
        config["telemetry.max.bytes"],
        config["barnabas.telemetry.max.decompressed.bytes"],
        config["barnabas.telemetry.max.points"],
        config["barnabas.telemetry.max.clients"],
        config["barnabas.telemetry.max.series"],
        config["barnabas.telemetry.cpu.percent"],
    )
    return ClientTelemetry(clock, limits)
