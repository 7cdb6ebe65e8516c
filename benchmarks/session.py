"""One run of the benchmark: its brokers, their topics, and the amount of work per measurement."""

import itertools
import os
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from benchmarks.subjects.brokers import Broker, apache_kafka, barnabas
from benchmarks.subjects.clusters import BarnabasCluster, Cluster, KafkaCluster
from benchmarks.subjects.object_store import ObjectStore
from benchmarks.subjects.rabbitmq import RabbitMq
from benchmarks.subjects.secured import SECURED, Certificates, secured_barnabas, secured_kafka
from benchmarks.subjects.slow_disk import SLOW, STALLING, on_slow_disk

# Kafka acknowledges acks=all without fsync; the comparison uses the same guarantee.
# Neither delays the first rebalance of a new group, which rows about groups would measure.
_NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}
NO_FSYNC = {"barnabas.acks.all.fsync": "never", **_NO_DELAY}
FSYNC_AUTO = {"barnabas.acks.all.fsync": "auto", **_NO_DELAY}
# Compaction rows must not measure the cleaner's sleep.
COMPACT_AT_ONCE = {"log.cleaner.backoff.ms": "100"}

# ACLs restrict topics; resources without ACLs are open, so that topics and ACLs can be created.
OPEN_WITHOUT_ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "barnabas": NO_FSYNC,
    "barnabas-fsync": FSYNC_AUTO,
    "barnabas-few-partitions": NO_FSYNC,
    "barnabas-many-partitions": NO_FSYNC,
    "barnabas-bare": NO_FSYNC,  # baseline of equal age for brokers with ACLs or quotas
    "barnabas-quotas": NO_FSYNC,
    "barnabas-compacting": {**NO_FSYNC, **COMPACT_AT_ONCE},
    "barnabas-acls": {**NO_FSYNC, **OPEN_WITHOUT_ACLS},
}
# Copied segments are deleted locally at once; reading a log larger than the cache is cold.
_AS_FAST_AS_IT_GOES = str(10 << 30)
_TIERED: Mapping[str, Mapping[str, str]] = {
    "barnabas-tiers": {"remote.log.manager.copy.max.bytes.per.second": _AS_FAST_AS_IT_GOES},
    "barnabas-tiers-paced": {"remote.log.manager.copy.max.bytes.per.second": str(50_000_000)},
}
_FOR_ALL_TIERED = {
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "200",
    "barnabas.remote.cache.bytes": str(64 << 20),
}
_KAFKA_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "kafka": {},
    "kafka-compacting": COMPACT_AT_ONCE,
    "kafka-acls": OPEN_WITHOUT_ACLS,
    "kafka-quotas": {},
}
# Brokers with TLS and SASL listeners.
_SECURED_KAFKA, _SECURED_BARNABAS = f"kafka-{SECURED}", f"barnabas-{SECURED}"
# Brokers on a disk that delays their writes.
_DISKS: Mapping[str, Mapping[str, str]] = {"slow-disk": SLOW, "stalling-disk": STALLING}
NO_CONFIG: Mapping[str, str] = {}
# Running for the whole session; others are stopped at the end of the row that needed them.
_PERMANENT = ("kafka", "barnabas")


def admin_client(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})  # errors only


class Session:
    def __init__(self, scratch: Path, scale: float = 1.0, profile_to: Path | None = None) -> None:
        self.scale = scale
        self._scratch = Path(tempfile.mkdtemp(prefix="run-", dir=scratch))
        self._profile_to = profile_to
        self._brokers: dict[str, Broker] = {}
        self._clusters: dict[str, Cluster] = {}
        self._rabbitmq: RabbitMq | None = None
        self._object_store: ObjectStore | None = None
        self._numbers = itertools.count(1)
        self._kept: dict[tuple[str, str], str] = {}

    @property
    def scratch(self) -> Path:
        return self._scratch

    @cached_property
    def certificates(self) -> Certificates:
        return Certificates(self._scratch / "certificates")

    def scaled(self, amount: int) -> int:
        """Amount of work, reduced in a quick run."""
        return max(1, int(amount * self.scale))

    def broker(self, key: str) -> Broker:
        """The broker of that key, started on first use."""
        if key not in self._brokers:
            self._brokers[key] = self.new_broker(key).start()
        return self._brokers[key]

    def new_broker(self, key: str) -> Broker:
        """A new broker of that kind, with an empty folder, not started."""
        folder = self._scratch / f"{key}-{next(self._numbers)}"
        kind, _, disk = key.partition("-")
        if disk in _DISKS:
            environment = on_slow_disk(self._scratch, _DISKS[disk])
            if kind == "kafka":
                return apache_kafka(key, folder, {}, environment)
            return barnabas(key, folder, NO_FSYNC, environment=environment)
        if key in _KAFKA_SETTINGS:
            return apache_kafka(key, folder, _KAFKA_SETTINGS[key])
        if key == _SECURED_KAFKA:
            return secured_kafka(key, folder, self.certificates)
        if key == _SECURED_BARNABAS:
            return secured_barnabas(key, folder, self.certificates, NO_FSYNC, self._profile_to)
        return barnabas(key, folder, self._settings(key), self._profile_to)

    def _settings(self, key: str) -> Mapping[str, str]:
        if key not in _TIERED:
            return _SETTINGS[key]
        return {**NO_FSYNC, **_FOR_ALL_TIERED, **_TIERED[key], **self.object_store().broker_settings}

    def cluster(self, key: str) -> Cluster:
        """The cluster of that key, which runs until the row ends."""
        if key not in self._clusters:
            self._clusters[key] = self.new_cluster(key).start()
        return self._clusters[key]

    def new_cluster(self, key: str) -> Cluster:
        """A new cluster of that kind, not started."""
        folder = self._scratch / f"{key}-cluster-{next(self._numbers)}"
        if key in _KAFKA_SETTINGS:
            return KafkaCluster(key, folder)
        return BarnabasCluster(key, folder, self._settings(key))

    def rabbitmq(self) -> RabbitMq:
        """A RabbitMQ, which runs until the row ends."""
        if self._rabbitmq is None:
            self._rabbitmq = RabbitMq(self._scratch / f"rabbitmq-{next(self._numbers)}").start()
        return self._rabbitmq

    def object_store(self) -> ObjectStore:
        """A local S3 store, which runs until the row ends."""
        if self._object_store is None:
            self._object_store = ObjectStore(self._scratch / f"objects-{next(self._numbers)}").start()
        return self._object_store

    def new_name(self) -> str:
        """Topic name that no measurement has used."""
        return f"bench-{next(self._numbers)}"

    def fresh_topic(self, broker: Broker, partitions: int, config: Mapping[str, str] = NO_CONFIG) -> str:
        name = self.new_name()
        self.create_topics(broker, {name: partitions}, config)
        return name

    def keep(self, broker: Broker, label: str, value: str) -> None:
        """Remember a value that a row has prepared on a broker, such as the topic to read."""
        self._kept[broker.name, label] = value

    def kept(self, broker: Broker, label: str) -> str:
        return self._kept[broker.name, label]

    def create_topics(
        self, broker: Broker, partitions_by_name: Mapping[str, int], config: Mapping[str, str] = NO_CONFIG
    ) -> None:
        admin = admin_client(broker)
        topics = [NewTopic(name, count, 1, config=dict(config)) for name, count in partitions_by_name.items()]
        for created in admin.create_topics(topics, request_timeout=60).values():
            created.result(60)

    def alter_topic(self, broker: Broker, topic: str, config: Mapping[str, str]) -> None:
        """Set topic configs; return once they are applied."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        admin = admin_client(broker)  # must not be garbage-collected before the response
        for altered in admin.incremental_alter_configs([resource]).values():
            altered.result(60)

    def delete_topic(self, broker: Broker, topic: str) -> None:
        admin = admin_client(broker)
        for deleted in admin.delete_topics([topic]).values():
            deleted.result(60)

    def settle(self) -> None:
        """Flush dirty pages of earlier measurements, so that they do not affect the next one."""
        os.sync()

    def end_row(self) -> None:
        for key in [key for key in self._brokers if key not in _PERMANENT]:
            self._brokers.pop(key).stop()
        for key in list(self._clusters):
            self._clusters.pop(key).stop()
        self._stop_others()

    def _stop_others(self) -> None:
        """Stop the object store and RabbitMQ last: brokers may need the store during shutdown."""
        self._stop_rabbitmq()
        if self._object_store is not None:
            self._object_store.stop()
            self._object_store = None

    def _stop_rabbitmq(self) -> None:
        if self._rabbitmq is not None:
            self._rabbitmq.stop()
            self._rabbitmq = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self._brokers.values():
            broker.stop()
        for cluster in self._clusters.values():
            cluster.stop()
        self._stop_others()
