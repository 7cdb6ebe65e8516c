"""Metrics of a broker other than requests and topics: replicas, cluster, network, process, health.

All values are computed when they are scraped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from barnabas.broker.coordinators import Coordinators
from barnabas.broker.exporter_metrics import declare_exporter_metrics, serves_exporter_metrics
from barnabas.broker.security.authentication import Authentication
from barnabas.broker.state_bounds import Bounded, declare_bounds_metrics
from barnabas.cluster.deltas import Delta, PartitionChanged, TopicDeleted
from barnabas.cluster.image import BrokerState, MetadataImage, PartitionState, effective_min_isr
from barnabas.common.clock import Clock
from barnabas.common.types import TopicPartition
from barnabas.common.version import __version__
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.groups import declare_group_metrics
from barnabas.metrics import (
    Metric,
    Registry,
    Sample,
    TopicMetrics,
    catalogue,
    declare_process_metrics,
)
from barnabas.network import (
    Listener,
    LoopMonitor,
    SocketServer,
    TlsListeners,
    declare_network_metrics,
    warn_if_metrics_exposed,
)
from barnabas.network.requests import Dispatcher
from barnabas.protocol.messages.mirror import MirrorState
from barnabas.replication import Mirrors, Partition, ReplicaManager
from barnabas.security.authz import AuditLog
from barnabas.security.quotas import ClientQuotas, declare_quota_metrics
from barnabas.transactions import declare_transaction_metrics
from barnabas.web import MetricsServer, credentials_from, metrics_server_limits

# -- Mirror topics -------------------------------------------------------------------------------------


def declare_mirror_metrics(
    registry: Registry, image: Callable[[], MetadataImage], replicas: ReplicaManager, mirrors: Mirrors
) -> None:
    registry.computed(catalogue.MIRROR_PARTITIONS, lambda: _by_state(image(), replicas))
    registry.read_by(catalogue.MIRROR_FAILED, lambda: _failed(image()))
    registry.computed(catalogue.MIRROR_LAG, lambda: _lags(mirrors))


def _failed(image: MetadataImage) -> int:
    return sum(
        len(mirror.partitions)
        if mirror.state == MirrorState.FAILED
        else sum(bool(each.failure) for each in mirror.partitions)
        for mirror in image.mirrors.values()
    )


def _by_state(image: MetadataImage, replicas: ReplicaManager) -> Iterator[Sample]:
    counts: Counter[str] = Counter()
    for topic_id, mirror in image.mirrors.items():
        for partition in replicas.by_id.get(topic_id, {}).values():
            if partition.is_leader:
                is_failed = mirror.partition(partition.index).failure
                counts[(MirrorState.FAILED if is_failed else MirrorState(mirror.state)).name] += 1
    for state, count in sorted(counts.items()):
        yield Sample("", (("state", state),), count)


def _lags(mirrors: Mirrors) -> Iterator[Sample]:
    for partition, end in mirrors.source_ends.items():
        labels = (("topic", partition.topic), ("partition", str(partition.index)))
        yield Sample("", labels, max(end - partition.log.log_end_offset, 0))


class MonitoringNeeds(Bounded, Protocol):
    """Parts of the broker used by monitoring."""

    @property
    def audit(self) -> AuditLog | None: ...
    @property
    def authentication(self) -> Authentication: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def cluster_id(self) -> str: ...
    @property
    def coordinators(self) -> Coordinators: ...
    @property
    def dispatcher(self) -> Dispatcher: ...
    @property
    def is_fenced(self) -> bool: ...
    @property
    def listeners(self) -> list[Listener]: ...
    @property
    def metrics(self) -> Registry: ...
    @property
    def mirrors(self) -> Mirrors: ...
    @property
    def node_id(self) -> int: ...
    @property
    def quotas(self) -> ClientQuotas: ...
    @property
    def refusal(self) -> str | None: ...
    @property
    def replicas(self) -> ReplicaManager: ...
    @property
    def sockets(self) -> SocketServer: ...
    @property
    def topic_metrics(self) -> TopicMetrics: ...


class Monitoring:
    """Declares a broker's metrics, monitors its event loop, and serves both over HTTP if an address is set."""

    def __init__(self, broker: MonitoringNeeds) -> None:
        self._broker = broker
        self._loop_monitor = LoopMonitor(broker.metrics, broker.logs.loop_was_late)
        self.http = MetricsServer(broker.metrics, self.health, metrics_server_limits(broker.config))
        self.is_serving = False
        registry = broker.metrics
        declare_cluster_metrics(registry, broker)
        declare_replica_metrics(registry, broker)
        if serves_exporter_metrics(broker.config):
            declare_exporter_metrics(registry, broker)
        declare_mirror_metrics(registry, lambda: broker.image, broker.replicas, broker.mirrors)
        declare_group_metrics(registry, broker.clock, broker.coordinators.groups)
        declare_transaction_metrics(registry, broker.clock, broker.coordinators.transactions)
        declare_bounds_metrics(registry, broker)
        declare_network_metrics(
            registry, broker.sockets, broker.authentication.counts, broker.dispatcher.refused_as_broker
        )
        declare_quota_metrics(registry, broker.quotas, broker.clock.monotonic)
        declare_audit_metrics(registry, broker.audit)
        clock = broker.clock
        registry.read_by(catalogue.CLOCK_JUMP, lambda: (clock.now_ms() - clock.expiry_ms()) / 1000)
        up = Sample("", (("broker", str(broker.node_id)),), 1)
        registry.computed(catalogue.PROCESS_UP, lambda: [up])
        declare_process_metrics(registry, broker.node_id, lambda: broker.cluster_id)
        registry.add_source(broker.telemetry.families)
        self._unclean_elections = registry.counter(catalogue.UNCLEAN_ELECTIONS).labels()

    async def start(self, address: str = "") -> None:
        """Start monitoring; `address` is HOST:PORT (`barnabas.metrics.listen`), or empty for no HTTP server."""
        self._loop_monitor.start()
        if address:
            secure_metrics(self.http, self._broker.config, self._broker.sockets.tls)
            host, _, port = address.rpartition(":")
            try:
                await self.http.start(host.strip("[]"), int(port))
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
                raise OSError(error.errno, f"barnabas.metrics.listen={address}: {reason}") from error
        self.is_serving = True

    async def stop(self) -> None:
        self.is_serving = False
        self._loop_monitor.stop()
        await self.http.stop()

    def follow(self, before: MetadataImage, deltas: Iterable[Delta]) -> None:
        """Count unclean elections, and remove the metrics of deleted topics."""
        for delta in deltas:
            if isinstance(delta, TopicDeleted) and (topic := before.topic_by_id(delta.topic_id)):
                self._broker.topic_metrics.remove(topic.name)
            elif isinstance(delta, PartitionChanged) and before.controller_id == self._broker.node_id:
                self._unclean_elections.value += delta.unclean

    def health(self) -> tuple[bool, Mapping[str, object]]:
        """Return (healthy, details). A broker is healthy if it serves clients and at least one log dir is online. A
        fenced broker is healthy, since it rejoins without a restart; one whose registration is refused is not."""
        broker = self._broker
        offline, refusal = sorted(broker.logs.offline_dirs), broker.refusal
        healthy = self.is_serving and len(offline) < len(broker.config.log_dirs) and refusal is None
        details = {
            "status": "up" if healthy else "down",
            "version": __version__,
            "node_id": broker.node_id,
            "cluster_id": broker.cluster_id,
            "controller_id": broker.image.controller_id,
            "listeners": [repr(listener) for listener in broker.listeners],
            "connections": len(broker.sockets.connections),
            "offline_log_dirs": offline,
            "fenced": broker.is_fenced,
        }
        if refusal is not None:
            details["refused"] = refusal
        return healthy, details


def secure_metrics(server: MetricsServer, config: BrokerConfig, tls: TlsListeners) -> None:
    """Set the credentials and the TLS of `barnabas.metrics.listen`; raise ConfigError if they are invalid."""
    name, credentials = config["barnabas.metrics.tls.listener"].upper(), credentials_from(config)
    if name and name not in tls:
        raise ConfigError(
            f"barnabas.metrics.tls.listener={name} is not the name of a listener with TLS (listeners)"
        )
    server.secure(credentials, (lambda: tls[name].context) if name else None)
    address = config["barnabas.metrics.listen"]
    warn_if_metrics_exposed(address, is_authenticated=bool(credentials), is_encrypted=bool(name))


# The cluster


def declare_cluster_metrics(registry: Registry, broker: MonitoringNeeds) -> None:
    """Declare cluster-wide metrics. As in Kafka, only the controller reports them: dashboards sum over brokers."""

    def is_controller() -> bool:
        return broker.image.controller_id == broker.node_id

    def states() -> Iterator[PartitionState]:
        return (state for _, _, state in broker.image.partitions() if is_controller())

    def brokers() -> Iterator[BrokerState]:
        return (other for other in broker.image.brokers.values() if is_controller())

    numbers: dict[Metric, Callable[[], int]] = {
        catalogue.ACTIVE_CONTROLLER: lambda: int(is_controller()),
        catalogue.TOPIC_COUNT: lambda: len(broker.image.topics) if is_controller() else 0,
        catalogue.ALL_PARTITIONS: lambda: sum(1 for _ in states()),
        catalogue.OFFLINE_PARTITIONS: lambda: (
            sum(state.leader < 0 for state in states()) + _failed_leaders(broker)
        ),
        catalogue.PREFERRED_IMBALANCE: lambda: sum(
            state.leader != state.preferred_leader for state in states()
        ),
        catalogue.ACTIVE_BROKERS: lambda: sum(not other.fenced for other in brokers()),
        catalogue.FENCED_BROKERS: lambda: sum(other.fenced for other in brokers()),
    }
    for metric, read in numbers.items():
        registry.read_by(metric, read)


def _failed_leaders(broker: MonitoringNeeds) -> int:
    """Number of partitions whose leader is this broker but whose log dir has failed."""
    failed = broker.replicas.offline
    return sum(
        state.leader == broker.node_id and TopicPartition(topic.name, index) in failed
        for topic, index, state in (broker.image.partitions() if failed else ())
    )


# Replicas of this broker


def declare_replica_metrics(registry: Registry, broker: MonitoringNeeds) -> None:
    def led_partitions() -> list[Partition]:
        return [partition for partition in broker.replicas if partition.is_leader]

    registry.read_by(catalogue.PARTITION_COUNT, lambda: len(broker.replicas))
    registry.read_by(catalogue.LEADER_COUNT, lambda: len(led_partitions()))
    registry.read_by(catalogue.UNDER_REPLICATED, lambda: sum(map(_is_under_replicated, led_partitions())))
    registry.read_by(
        catalogue.UNDER_MIN_ISR, lambda: sum(_spare_replicas(each) < 0 for each in led_partitions())
    )
    registry.read_by(
        catalogue.AT_MIN_ISR, lambda: sum(_spare_replicas(each) == 0 for each in led_partitions())
    )
    registry.read_by(catalogue.OFFLINE_DIRS, lambda: len(broker.logs.offline_dirs))
    of_led: dict[Metric, Callable[[Partition], int]] = {
        catalogue.PARTITION_UNDER_REPLICATED: _is_under_replicated,
        catalogue.PARTITION_UNDER_MIN_ISR: lambda partition: _spare_replicas(partition) < 0,
        catalogue.PARTITION_AT_MIN_ISR: lambda partition: _spare_replicas(partition) == 0,
        catalogue.PARTITION_REPLICAS_COUNT: _replica_count,
    }
    of_all: dict[Metric, Callable[[Partition], int]] = {
        catalogue.LOG_SIZE: lambda partition: partition.log.size_bytes,
        catalogue.LOG_START: lambda partition: partition.log.log_start_offset,
        catalogue.LOG_END: lambda partition: partition.log.log_end_offset,
        catalogue.LOG_SEGMENTS: lambda partition: len(partition.log.segments),
    }
    for metric, read in of_led.items():
        registry.computed(metric, _each_partition(led_partitions, read))
    for metric, read in of_all.items():
        registry.computed(metric, _each_partition(lambda: list(broker.replicas), read))


def _replica_count(partition: Partition) -> int:
    return 0 if partition.state is None else len(partition.state.replicas)


def _is_under_replicated(partition: Partition) -> bool:
    state = partition.state
    return state is not None and len(state.isr) < len(state.replicas)


def _spare_replicas(partition: Partition) -> int:
    """Return the ISR size minus the effective min.insync.replicas."""
    state = partition.state
    if state is None:
        return 0
    return len(state.isr) - effective_min_isr(partition.log.config.min_insync_replicas, len(state.replicas))


def _each_partition(
    partitions: Callable[[], list[Partition]], read: Callable[[Partition], int]
) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        for partition in partitions():
            labels = (("topic", partition.topic), ("partition", str(partition.index)))
            yield Sample("", labels, int(read(partition)))

    return samples


def declare_audit_metrics(registry: Registry, audit: AuditLog | None) -> None:
    registry.read_by(catalogue.AUDIT_EVENTS, lambda: audit.written if audit is not None else 0)
    registry.read_by(catalogue.AUDIT_LOST, lambda: audit.lost if audit is not None else 0)
