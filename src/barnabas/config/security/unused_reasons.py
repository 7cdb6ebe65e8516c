"""Why settings of Kafka about security have no effect here. A test finds those that are not used and have no reason.

The owner of a file would believe that such a setting protects something.
"""

from __future__ import annotations

_JAVA_TLS = (
    "it names a part of Java's TLS, and OpenSSL is used; see ssl.enabled.protocols and ssl.cipher.suites"
)
_JAVA_CLASS = "Kafka's own classes are names of what Barnabas does, others stop the start"
_THROTTLES = "throttles of replication measure by the second"
_NO_POOLS = "copying and expiring remote segments are turns of the broker's loop, not threads"
_MANIFESTS = "what is remote stands in manifests in the object store, and in no topic"
_STORE = "the object store is named by barnabas.remote.storage.url, its options by rsm.config."
_ZOOKEEPER = "TLS to ZooKeeper is Python's: TLS 1.2 and later, with the ciphers of OpenSSL"

_BY_NAME = {
    "ssl.keymanager.algorithm": _JAVA_TLS,
    "ssl.protocol": _JAVA_TLS,
    "ssl.provider": _JAVA_TLS,
    "ssl.secure.random.implementation": _JAVA_TLS,
    "ssl.trustmanager.algorithm": _JAVA_TLS,
    "sasl.mechanism.controller.protocol": "there are no KRaft controllers: see sasl.mechanism.inter.broker.protocol",
    "zookeeper.ssl.truststore.password": "a trust store in PEM has none",
    "security.providers": _JAVA_CLASS,
    "remote.log.storage.manager.class.name": _STORE,
    "remote.log.metadata.manager.class.name": _MANIFESTS,
    "remote.log.reader.max.pending.tasks": "fetches that want the same remote data share one download",
}

_BY_BEGINNING = {
    "sasl.kerberos.": "it is about tickets that Java renews: the key table is read when a client logs in",
    "sasl.oauthbearer.assertion.": "brokers do not log in to each other with assertions",
    "sasl.oauthbearer.": "it is not used by what Barnabas does of OAUTHBEARER; see sasl.enabled.mechanisms",
    "sasl.login.": "it is about logins of Java: brokers log in again with each connection",
    "password.encoder.": "Kafka 4 does not have it either; passwords that are set at run time are not kept encrypted",
    "replication.quota.window.": _THROTTLES,
    "alter.log.dirs.replication.quota.window.": _THROTTLES,
    "remote.log.manager.": _NO_POOLS,
    "remote.log.metadata.": _MANIFESTS,
    "remote.log.storage.manager.": _STORE,
    "remote.log.index.file.cache.": "indexes are part of remote segments; see barnabas.remote.cache.bytes",
    "zookeeper.ssl.": _ZOOKEEPER,
}

_ENDS_OF_CLASSES = (".class", ".class.name")


def reason_without_effect(name: str) -> str:
    """Empty where none is known."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name.endswith(_ENDS_OF_CLASSES):
        return _JAVA_CLASS
    return next((reason for beginning, reason in _BY_BEGINNING.items() if name.startswith(beginning)), "")
