"""Configurations of the processes of a node: ids, ports, and their shares of the machine."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator, Mapping
from functools import cached_property

from barnabas.cluster import MAX_PROCESSES, broker_of, check_node_id
from barnabas.common.cpus import usable_cpus
from barnabas.common.errors import KafkaError
from barnabas.config.broker import BrokerConfig
from barnabas.config.listeners import ListenerSpec
from barnabas.config.setting import ConfigError
from barnabas.network import Listener

STEP = "barnabas.processes.port.step"
METRICS = "barnabas.metrics.listen"
SHARED = ("queued.max.request.bytes", "log.cleaner.dedupe.buffer.size", "barnabas.remote.cache.bytes")
"""Bytes of the machine, which the processes divide."""
DESCRIPTORS_EACH = 8  # of the supervisor, in addition to the listeners
DESCRIPTORS_SPARE = 64
MAX_PORT = 65535
UNSUPPORTED = {
    "zookeeper.connect": "a cluster has nodes",
    "remote.log.storage.system.enable": "tiered storage runs",
}
"""Settings that have not been tested with several processes."""


def process_count(text: str) -> int:
    """Number of processes for a valid value of `barnabas.processes`."""
    return min(usable_cpus(), MAX_PROCESSES) if text == "auto" else int(text)


class NodeConfig:
    """Configurations of `count` processes. Raises ConfigError if they cannot run together. `other_ports` are those of
    companions, by option."""

    def __init__(
        self, properties: Mapping[str, str], count: int, other_ports: Mapping[str, int] | None = None
    ) -> None:
        self._properties = dict(properties)
        self.node = BrokerConfig.load(properties)
        self.count = count
        self._other_ports = other_ports or {}
        self._check_count()
        self._check_ports()

    @property
    def node_id(self) -> int:
        return self.node.node_id

    @cached_property
    def processes(self) -> list[BrokerConfig]:
        return [BrokerConfig.load(self._properties_of(k)) for k in range(self.count)]

    def _check_count(self) -> None:
        for setting, what in UNSUPPORTED.items():
            if self.node[setting]:
                raise ConfigError(f"{setting} is set: {what} with one process only, for now")
        if not 1 <= self.count <= MAX_PROCESSES:
            raise ConfigError(f"{self.count} processes: choose from 1 to {MAX_PROCESSES}")
        try:
            check_node_id(self.node_id)
        except KafkaError as error:
            raise ConfigError(error.message) from None
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = self.count * (len(self.node.listeners) + DESCRIPTORS_EACH) + DESCRIPTORS_SPARE
        if allowed != resource.RLIM_INFINITY and needed > allowed:
            raise ConfigError(
                f"{self.count} processes need {needed} open files, but this process may open {allowed}: raise the "
                "limit (ulimit -n, or LimitNOFILE of systemd), or run fewer processes"
            )

    def _check_ports(self) -> None:
        """Refuse overlapping ports, before anything is opened."""
        used = {port: name for name, port in self._other_ports.items() if port}
        for k in range(self.count):
            for name, port in self._ports(k):
                if port > MAX_PORT:
                    raise ConfigError(
                        f"process {k} would listen on port {port} for {name}: choose a lower port"
                    )
                if port in used:
                    raise ConfigError(
                        f"process {k} would listen on port {port} for {name}, which {used[port]} has: set {STEP}, the "
                        "distance of the processes' ports, or other ports"
                    )
                used[port] = name if name == METRICS else f"{name} of process {k}"

    def _ports(self, k: int) -> Iterator[tuple[str, int]]:
        """Names and ports of process k, without those that are chosen by the system."""
        config = self.node
        for spec in config.listeners:
            if spec.port:
                yield spec.name, spec.port + k * config[STEP]
        if k == 0 and config[METRICS] and not config[METRICS].endswith(":0"):
            yield METRICS, int(config[METRICS].rpartition(":")[2])

    def _properties_of(self, k: int) -> dict[str, str]:
        config, properties = self.node, dict(self._properties)
        for old in ("broker.id", "advertised.host.name", "advertised.port"):
            properties.pop(old, None)
        properties["node.id"] = str(broker_of(self.node_id, k))
        for setting in ("listeners", "advertised.listeners"):
            if config[setting]:
                properties[setting] = ",".join(_shifted(text, k * config[STEP]) for text in config[setting])
        for name in SHARED:
            if config[name] > 0:
                properties[name] = str(max(config[name] // self.count, 1))
        properties.pop(METRICS, None)  # one address for all
        if k > 0 and config["barnabas.audit.file"]:
            properties["barnabas.audit.file"] = f"{config['barnabas.audit.file']}.{k}"
        return properties


def _shifted(listener: str, distance: int) -> str:
    """`NAME://HOST:PORT` or `HOST:PORT` with another port. Port 0 stays: any free port."""
    address, _, port = listener.rpartition(":")
    return listener if port == "0" or not distance else f"{address}:{int(port) + distance}"


def bound_ports(node: NodeConfig) -> list[dict[str, socket.socket]]:
    """Listening sockets of each process by listener. Raise OSError if a port is in use."""
    return [{spec.name: _bound(config, spec) for spec in config.listeners} for config in node.processes]


def _bound(config: BrokerConfig, spec: ListenerSpec) -> socket.socket:
    listener = Listener(
        spec.name,
        spec.host,
        spec.port,
        backlog=config["socket.listen.backlog.size"],
        receive_buffer=config["socket.receive.buffer.bytes"],
        send_buffer=config["socket.send.buffer.bytes"],
    )
    listener.open()
    return listener.detach()
