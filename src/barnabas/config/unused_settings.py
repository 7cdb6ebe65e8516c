"""Settings of Apache Kafka without effect in Barnabas, so that Kafka's `server.properties` files are accepted.

Setting one logs a warning; values are not validated, and only those that are set are described. A setting moves from
here to another module when Barnabas starts to use it.
"""

from __future__ import annotations

from barnabas.config.setting import Setting, SettingKind, UpdateMode

# -- Reasons why a setting has no effect. A test checks that each unused security setting has one ------

_JAVA_TLS = (
    "it configures Java's TLS, but Barnabas uses OpenSSL; see ssl.enabled.protocols and ssl.cipher.suites"
)
_JAVA_CLASS = "Kafka's classes select built-in equivalents, others are refused at the start"
_THROTTLES = "replication throttles use samples of one second"
_NO_POOLS = "remote segments are copied and expired on the event loop, not by threads"
_MANIFESTS = "metadata of remote segments are in manifests in the object store, not in a topic"
_STORE = "the object store is set with barnabas.remote.storage.url, its options with rsm.config."
_ZOOKEEPER = "TLS to ZooKeeper uses TLS 1.2 or later, with OpenSSL's default ciphers"

_BY_NAME = {
    "ssl.keymanager.algorithm": _JAVA_TLS,
    "ssl.protocol": _JAVA_TLS,
    "ssl.provider": _JAVA_TLS,
    "ssl.secure.random.implementation": _JAVA_TLS,
    "ssl.trustmanager.algorithm": _JAVA_TLS,
    "sasl.mechanism.controller.protocol": "Barnabas has no KRaft controllers: see sasl.mechanism.inter.broker.protocol",
    "zookeeper.ssl.truststore.password": "a PEM trust store has no password",
    "security.providers": _JAVA_CLASS,
    "remote.log.storage.manager.class.name": _STORE,
    "remote.log.metadata.manager.class.name": _MANIFESTS,
    "remote.log.reader.max.pending.tasks": "concurrent fetches of the same remote data share one download",
}

_BY_PREFIX = {
    "sasl.kerberos.": "it configures Java's ticket renewal; Barnabas reads the keytab at each login",
    "sasl.oauthbearer.assertion.": "brokers do not use assertions to authenticate to each other",
    "sasl.oauthbearer.": "this part of OAUTHBEARER is not supported; see sasl.enabled.mechanisms",
    "sasl.login.": "it configures Java's login refresh; brokers log in with each new connection",
    "password.encoder.": "Kafka 4 dropped it, too; dynamic password configs are stored unencrypted",
    "replication.quota.window.": _THROTTLES,
    "alter.log.dirs.replication.quota.window.": _THROTTLES,
    "remote.log.manager.": _NO_POOLS,
    "remote.log.metadata.": _MANIFESTS,
    "remote.log.storage.manager.": _STORE,
    "remote.log.index.file.cache.": "indexes are part of remote segments; see barnabas.remote.cache.bytes",
    "zookeeper.ssl.": _ZOOKEEPER,
}

_CLASS_SUFFIXES = (".class", ".class.name")


def reason_without_effect(name: str) -> str:
    """Return the reason why a setting has no effect; empty if none is given."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name.endswith(_CLASS_SUFFIXES):
        return _JAVA_CLASS
    return next((reason for prefix, reason in _BY_PREFIX.items() if name.startswith(prefix)), "")


_SECRET = """
    password.encoder.old.secret password.encoder.secret
    sasl.oauthbearer.assertion.private.key.passphrase
    zookeeper.ssl.truststore.password
"""

_CLUSTER_WIDE = """
    background.threads config.providers group.coordinator.cached.buffer.max.bytes
    log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size metric.reporters num.io.threads
    num.network.threads remote.log.index.file.cache.total.size.bytes
    remote.log.manager.expiration.thread.pool.size
    remote.log.manager.follower.thread.pool.size share.coordinator.cached.buffer.max.bytes
"""

_PER_BROKER = """
    principal.builder.class sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol
    ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
"""

_READ_ONLY = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
    alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds broker.heartbeat.interval.ms
    broker.session.timeout.ms client.quota.callback.class controller.performance.always.log.threshold.ms
    controller.performance.sample.period.ms controller.quorum.append.linger.ms
    controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
    controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
    controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
    controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
    controller.quorum.retry.backoff.ms controller.quorum.voters controller.socket.timeout.ms
    create.topic.policy.class.name delete.records.purgatory.purge.interval.requests early.start.listeners
    fetch.purgatory.purge.interval.requests group.coordinator.append.linger.ms
    group.coordinator.background.threads group.coordinator.threads group.share.persister.class.name
    initial.broker.registration.timeout.ms internal.metadata.delete.delay.millis
    internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
    kafka.metrics.polling.interval.secs kafka.metrics.reporters log.dir.failure.timeout.ms metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
    metadata.max.retention.bytes metadata.max.retention.ms metrics.num.samples metrics.recording.level
    metrics.sample.window.ms num.replica.alter.log.dirs.threads offsets.load.buffer.size process.roles
    producer.purgatory.purge.interval.requests queued.max.requests remote.log.index.file.cache.ttl.ms
    remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
    remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
    remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
    remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
    remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
    remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
    remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks
    remote.log.storage.manager.class.name remote.log.storage.manager.class.path
    remote.log.storage.manager.impl.prefix replication.quota.window.num
    replication.quota.window.size.seconds sasl.client.callback.handler.class
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism.controller.protocol sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.jwt.retriever.class
    sasl.oauthbearer.jwt.validator.class sasl.server.callback.handler.class security.providers
    server.max.startup.time.ms share.coordinator.append.linger.ms
    share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
    share.coordinator.state.topic.compression.codec share.coordinator.threads
    share.fetch.purgatory.purge.interval.requests socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms transaction.state.log.load.buffer.size
    unclean.leader.election.interval.ms unstable.api.versions.enable unstable.feature.versions.enable
"""

# Removed in Kafka 4, but still present in older files.
_OF_KAFKA_3 = """
    broker.id.generation.enable control.plane.listener.name controlled.shutdown.max.retries
    controlled.shutdown.retry.backoff.ms group.coordinator.new.enable inter.broker.protocol.version
    leader.imbalance.per.broker.percentage log.message.downconversion.enable log.message.format.version
    log.message.timestamp.difference.max.ms offsets.commit.required.acks password.encoder.cipher.algorithm
    password.encoder.iterations password.encoder.key.length password.encoder.keyfactory.algorithm
    reserved.broker.max.id zookeeper.clientCnxnSocket zookeeper.max.in.flight.requests
    zookeeper.ssl.cipher.suites zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols
    zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol
"""


_NOT_YET = """
    group.coordinator.rebalance.protocols log.preallocate
    num.recovery.threads.per.data.dir num.replica.fetchers offsets.topic.compression.codec preallocate
    replica.socket.receive.buffer.bytes
"""
_WITHOUT_EFFECT = frozenset(_NOT_YET.split())


def is_without_effect_yet(name: str) -> bool:
    """True for a setting that is declared, validated and described as in Kafka, but not used yet.

    A test compares this list with the code, in both directions.
    """
    return name in _WITHOUT_EFFECT


def _declare(names: str, kind: SettingKind, mode: UpdateMode) -> dict[str, Setting]:
    text = "Setting of Apache Kafka without effect in Barnabas."
    return {name: Setting(name, kind, None, text, None, mode) for name in names.split()}


UNUSED_SETTINGS: dict[str, Setting] = {
    **_declare(_SECRET, SettingKind.PASSWORD, UpdateMode.PER_BROKER),
    **_declare(_CLUSTER_WIDE, SettingKind.STRING, UpdateMode.CLUSTER_WIDE),
    **_declare(_PER_BROKER, SettingKind.STRING, UpdateMode.PER_BROKER),
    **_declare(_READ_ONLY, SettingKind.STRING, UpdateMode.READ_ONLY),
    **_declare(_OF_KAFKA_3, SettingKind.STRING, UpdateMode.READ_ONLY),
}
