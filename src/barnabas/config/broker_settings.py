"""Settings of a broker: identity, ZooKeeper, network, limits and topic management.

Names and types are those of Apache Kafka 4.3. So are the defaults, unless a comment explains the difference.
"""

from __future__ import annotations

from barnabas.config.checks import AtLeast, Matching, OneOf
from barnabas.config.setting import MAX_INT, Setting, SettingKind, UpdateMode

_CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE

IDENTITY_SETTINGS: tuple[Setting, ...] = (
    # Kafka requires an id; here a single node starts without any settings.
    Setting("node.id", SettingKind.INT, "1", "The id of this broker, unique in its cluster.", AtLeast(0)),
    Setting("broker.id", SettingKind.INT, "-1", "The older name of node.id. If both are set, they must be equal."),
    Setting("broker.rack", SettingKind.STRING, None,
            "The rack of this broker. The replicas of a partition are spread over racks."),
    Setting("barnabas.host", SettingKind.STRING, None,
            "The name of this machine, if several brokers run on it: replicas are spread over machines first, then "
            "over racks. Default: the host name."),
    Setting("barnabas.cluster.id", SettingKind.STRING, None,
            "The cluster id to write into new data directories: 22 characters of URL-safe base64. Default: a random "
            "id.", Matching(r"[A-Za-z0-9_-]{22}", "22 characters of URL-safe base64")),
    Setting("zookeeper.connect", SettingKind.STRING, None,
            "HOST:PORT[,HOST:PORT...][/path] of the ZooKeeper ensemble that coordinates the brokers. Unset: a single "
            "node, which needs no ZooKeeper."),
    Setting("zookeeper.connection.timeout.ms", SettingKind.INT, None,
            "The maximum time to wait for the first connection to ZooKeeper. Default: zookeeper.session.timeout.ms.",
            AtLeast(1)),
    # Kafka's default is 18 s, until 2.5 it was 6 s. For this time a failed leader is not replaced.
    Setting("zookeeper.session.timeout.ms", SettingKind.INT, "6000",
            "The ZooKeeper session timeout. A broker whose session expires is considered dead.", AtLeast(1)),
    Setting("zookeeper.set.acl", SettingKind.BOOLEAN, "false",
            "Whether to create znodes that only the credentials of their creator may change. All brokers of the "
            "cluster need the same credentials then."),
    Setting("barnabas.zookeeper.digest", SettingKind.PASSWORD, None,
            "USER:PASSWORD for ZooKeeper's digest scheme."),
    Setting("barnabas.zookeeper.sasl.mechanism", SettingKind.STRING, None,
            "The SASL mechanism for ZooKeeper, which Kafka reads from a JAAS file. GSSAPI uses the ticket cache of "
            "the process.", OneOf("DIGEST-MD5", "GSSAPI")),
    Setting("barnabas.zookeeper.sasl.username", SettingKind.STRING, None, "The SASL user for ZooKeeper."),
    Setting("barnabas.zookeeper.sasl.password", SettingKind.PASSWORD, None, "The SASL password for ZooKeeper."),
    Setting("zookeeper.ssl.client.enable", SettingKind.BOOLEAN, "false", "Whether to connect to ZooKeeper with TLS."),
    Setting("zookeeper.ssl.truststore.location", SettingKind.STRING, None,
            "A PEM file with the authorities that ZooKeeper's certificate is verified against. Default: the "
            "authorities of the system."),
    Setting("zookeeper.ssl.truststore.type", SettingKind.STRING, None, "Only PEM is supported."),
    Setting("zookeeper.ssl.keystore.location", SettingKind.STRING, None,
            "A PEM file with this broker's certificate and private key, if ZooKeeper requires client certificates."),
    Setting("zookeeper.ssl.keystore.type", SettingKind.STRING, None, "Only PEM is supported."),
    Setting("zookeeper.ssl.keystore.password", SettingKind.PASSWORD, None,
            "The password of the private key in zookeeper.ssl.keystore.location, if it is encrypted."),
    Setting("zookeeper.ssl.endpoint.identification.algorithm", SettingKind.STRING, "HTTPS",
            "HTTPS: ZooKeeper's certificate must match its host name. Empty: the host name is not verified."),
)  # fmt: skip

NETWORK_SETTINGS: tuple[Setting, ...] = (
    # Kafka's default is all interfaces, which is unsafe without authentication, so it must be set explicitly here.
    # Kafka can change listeners dynamically; here they are opened only at the start.
    Setting("listeners", SettingKind.LIST, "PLAINTEXT://127.0.0.1:9092",
            "The addresses to listen on: NAME://HOST:PORT, separated by commas. An empty host means all interfaces, "
            "port 0 any free port."),
    Setting("advertised.listeners", SettingKind.LIST, None,
            "The addresses that clients connect to, if they differ from listeners, for example behind NAT or with "
            "published container ports. Default: the address that the client connected to."),
    Setting("listener.security.protocol.map", SettingKind.STRING,
            "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "The security protocol of each listener: NAME:PROTOCOL, separated by commas."),
    Setting("inter.broker.listener.name", SettingKind.STRING, None,
            "The listener for connections between brokers. Default: the first one with "
            "security.inter.broker.protocol."),
    Setting("barnabas.also.inter.broker.listeners", SettingKind.LIST, "",
            "Additional listeners that accept requests from brokers. Needed while inter.broker.listener.name is "
            "changed with a rolling restart."),
    Setting("security.inter.broker.protocol", SettingKind.STRING, "PLAINTEXT",
            "The security protocol between brokers. Set either this or inter.broker.listener.name.",
            OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    Setting("controller.listener.names", SettingKind.LIST, "",
            "The listeners of Kafka's KRaft controllers. Accepted for compatibility with Kafka's server.properties; "
            "listeners named here are not opened."),
    # Kafka's 50 are too few when all clients reconnect at once; the kernel caps the value.
    Setting("socket.listen.backlog.size", SettingKind.INT, "1024",
            "The maximum number of pending connections on a listener.", AtLeast(1)),
    # Kafka's default is 100 KiB for both, which disables the kernel's automatic tuning.
    Setting("socket.receive.buffer.bytes", SettingKind.INT, "-1",
            "SO_RCVBUF of client connections; -1 uses the default of the operating system."),
    Setting("socket.send.buffer.bytes", SettingKind.INT, "-1",
            "SO_SNDBUF of client connections; -1 uses the default of the operating system."),
    Setting("socket.request.max.bytes", SettingKind.INT, "104857600",
            "The maximum size of a request. A client that announces a larger one is disconnected.", AtLeast(1)),
    # Unlimited in Kafka, where any client can exhaust the broker's memory.
    Setting("queued.max.request.bytes", SettingKind.LONG, "268435456",
            "The maximum memory for requests that are being received. Beyond it, no more data is read from sockets. "
            "-1: no limit."),
    Setting("barnabas.queued.max.request.bytes.per.ip", SettingKind.LONG, "-1",
            "The maximum share of queued.max.request.bytes for requests from one address; a single request may be "
            "larger. -1: half."),
    Setting("barnabas.request.min.bytes.per.second", SettingKind.INT, "65536",
            "The minimum rate at which a request must arrive once its first byte was received.", AtLeast(1)),
    Setting("barnabas.request.late.ms", SettingKind.INT, "30000",
            "The maximum delay of a request relative to barnabas.request.min.bytes.per.second. Beyond it, the "
            "connection is closed.",
            AtLeast(1)),
    Setting("barnabas.request.late.short.memory.ms", SettingKind.INT, "2000",
            "The same while other requests wait for memory. The slowest connections are closed first, until enough "
            "memory is free.", AtLeast(1)),
    # Unlimited in Kafka. Each connection needs a file descriptor, and those of a process are limited.
    Setting("max.connections", SettingKind.INT, "10000",
            "The maximum number of connections; fewer if the process may not open that many files.",
            AtLeast(0), mode=_CLUSTER_WIDE),
    Setting("max.connections.per.ip", SettingKind.INT, "5000",
            "The maximum number of connections from one address.", AtLeast(0), mode=_CLUSTER_WIDE),
    Setting("max.connections.per.ip.overrides", SettingKind.STRING, "",
            "Values of max.connections.per.ip for specific addresses: HOST:LIMIT, separated by commas.",
            Matching(r"\s*[^,\s]+:[0-9]+\s*(,\s*[^,\s]+:[0-9]+\s*)*", "HOST:LIMIT,HOST:LIMIT,..."),
            mode=_CLUSTER_WIDE),
    # A broker has three connections to each other broker, plus broken ones that are not detected yet.
    Setting("barnabas.connections.kept.per.broker", SettingKind.INT, "8",
            "The number of connections reserved for each other broker of the cluster, within max.connections and "
            "exempt from max.connections.per.ip, so that clients cannot lock brokers out.",
            AtLeast(0), mode=_CLUSTER_WIDE),
    Setting("max.connection.creation.rate", SettingKind.INT, str(MAX_INT),
            "The maximum number of new connections per second.", AtLeast(0), mode=_CLUSTER_WIDE),
    Setting("connections.max.idle.ms", SettingKind.LONG, "600000",
            "The idle time after which a connection is closed. Negative: never."),
    Setting("barnabas.first.request.timeout.ms", SettingKind.INT, "30000",
            "The maximum time from accepting a connection to its first complete request, and to the end of "
            "authentication if the listener requires it. Then the connection is closed.", AtLeast(1)),
    Setting("barnabas.slow.request.ms", SettingKind.INT, "1000",
            "Requests that take longer than this, not counting the wait time they requested, are logged. 0: none.",
            AtLeast(0), mode=_CLUSTER_WIDE),
    Setting("barnabas.request.max.elements", SettingKind.INT, "150000",
            "The maximum number of elements in all arrays of a request. The default allows to create 5,000 topics "
            "with their configs, or to commit 50,000 offsets.", AtLeast(10_000), mode=_CLUSTER_WIDE),
    # 10,000 elements block the event loop for about 30 ms.
    Setting("barnabas.undivided.request.max.elements", SettingKind.INT, "10000",
            "The same for requests that cannot be processed in parts, such as JoinGroup: all other clients wait "
            "meanwhile.", AtLeast(1000), mode=_CLUSTER_WIDE),
    Setting("barnabas.heavy.request.max.bytes", SettingKind.INT, "16777216",
            "The maximum size of a request that has more than 1,000 elements, or that exceeds 1 MiB and is not a "
            "Produce request.", AtLeast(1 << 20), mode=_CLUSTER_WIDE),
    # A decoded request of 150,000 elements takes about 30 MB, and so does its response.
    Setting("barnabas.heavy.requests.at.once", SettingKind.INT, "2",
            "The maximum number of requests of more than 1,000 elements or 1 MiB that are processed concurrently, and "
            "as many large responses to small requests. The others wait. Each takes up to 60 MB.", AtLeast(1)),
    Setting("barnabas.response.max.bytes", SettingKind.INT, "33554432",
            "The maximum size of a response to a request with many elements or about many resources, not counting "
            "records.", AtLeast(1 << 20), mode=_CLUSTER_WIDE),
    Setting("barnabas.log.lines.max", SettingKind.INT, "10",
            "The maximum number of log lines per 10 seconds of each kind that clients can cause, such as refused "
            "requests. Further ones are only counted. Applies to all brokers in the process.",
            AtLeast(1), mode=_CLUSTER_WIDE),
    Setting("barnabas.log.line.max.characters", SettingKind.INT, "2000",
            "The maximum length of a line of the broker's log; longer lines are truncated in the middle. Applies to "
            "all brokers in the process.", AtLeast(200), mode=_CLUSTER_WIDE),
    # Ten times the usual length of a pattern that lists topics.
    Setting("barnabas.regex.max.characters", SettingKind.INT, "4096",
            "The maximum length of a regular expression from a client. Applies to all brokers in the process.",
            AtLeast(1), mode=_CLUSTER_WIDE),
    Setting("barnabas.regex.max.bytes", SettingKind.INT, "524288",
            "The maximum memory of a compiled regular expression from a client. Applies to all brokers in the "
            "process.", AtLeast(4096), mode=_CLUSTER_WIDE),
    # RE2 matches 32 KB with the worst pattern of 800 instructions in 5 ms, with one of 1,600 in 300 ms.
    Setting("barnabas.regex.max.instructions", SettingKind.INT, "800",
            "The maximum number of instructions of a compiled regular expression that is matched against strings of "
            "any length (transactional ids, properties of clients). Applies to all brokers in the process.",
            AtLeast(1), mode=_CLUSTER_WIDE),
    Setting("barnabas.metrics.listen", SettingKind.STRING, "",
            "HOST:PORT of the HTTP server for metrics and health. Without HOST: 127.0.0.1; with *: all interfaces. "
            "Empty: no server.",
            Matching(r"(\[[0-9a-fA-F:.]+\]|[^:\s]*):[0-9]{1,5}", "HOST:PORT or nothing")),
    Setting("barnabas.metrics.exporter", SettingKind.STRING, "auto",
            "Whether barnabas.metrics.listen also serves kafka_exporter's metrics of the cluster: on, off or auto (on "
            "for a node without ZooKeeper). Dashboards sum them, so enable it on at most one broker. In a cluster a "
            "broker reports only groups that it coordinates and partitions that it leads.",
            OneOf("auto", "on", "off")),
    Setting("barnabas.metrics.users.file", SettingKind.STRING, "",
            "A file with lines NAME:PASSWORD of users that may read metrics (HTTP Basic). Changes are picked up. "
            "Without this and barnabas.metrics.tokens.file, metrics are open to everyone who can connect."),
    Setting("barnabas.metrics.tokens.file", SettingKind.STRING, "",
            "A file with one token per line; each grants access to metrics (HTTP Bearer). Changes are picked up."),
    Setting("barnabas.metrics.tls.listener", SettingKind.STRING, "",
            "The name of a TLS listener whose key store and trust store barnabas.metrics.listen uses. Empty: no TLS "
            "for metrics."),
    Setting("barnabas.metrics.max.connections", SettingKind.INT, "32",
            "The maximum number of connections to barnabas.metrics.listen. A new one replaces the oldest.",
            AtLeast(1)),
    Setting("barnabas.metrics.max.large.answers", SettingKind.INT, "8",
            "The maximum number of responses of more than 64 KiB that barnabas.metrics.listen sends concurrently. A "
            "new one replaces the oldest, whose connection is closed.", AtLeast(1)),
    Setting("barnabas.metrics.request.timeout.ms", SettingKind.INT, "5000",
            "The maximum time for a client of barnabas.metrics.listen to send its request.", AtLeast(1)),
    Setting("barnabas.metrics.answer.timeout.ms", SettingKind.INT, "20000",
            "The maximum time for a client of barnabas.metrics.listen to read its response.", AtLeast(1)),
    Setting("request.timeout.ms", SettingKind.INT, "30000",
            "The maximum time to wait for the response of another broker."),
)  # fmt: skip

TOPIC_MANAGEMENT_SETTINGS: tuple[Setting, ...] = (
    Setting("num.partitions", SettingKind.INT, "1",
            "The number of partitions of a new topic, unless the request specifies it.", AtLeast(1)),
    Setting("default.replication.factor", SettingKind.INT, "1",
            "The replication factor of a new topic, unless the request specifies it.", AtLeast(1)),
    Setting("auto.create.topics.enable", SettingKind.BOOLEAN, "true",
            "Whether to create a missing topic when a client requests its metadata and allows creation."),
    Setting("delete.topic.enable", SettingKind.BOOLEAN, "true", "Whether clients may delete topics."),
    # A client id proves nothing: in Kafka any client that uses this one can write the offsets of other groups.
    Setting("barnabas.internal.topics.writable", SettingKind.BOOLEAN, "false",
            "Whether clients with the client id __admin_client may write to internal topics, as in Apache Kafka. For "
            "tools that restore them. Any client can use that client id.",
            mode=_CLUSTER_WIDE),
    Setting("fetch.max.bytes", SettingKind.INT, "57671680",
            "The maximum size of a fetch response, regardless of the client's limit.", AtLeast(1024)),
    Setting("max.incremental.fetch.session.cache.slots", SettingKind.INT, "1000",
            "The maximum number of fetch sessions.", AtLeast(0)),
    # Kafka bounds the number of sessions but not their content. An entry takes about 400 bytes.
    Setting("barnabas.fetch.session.max.partitions", SettingKind.INT, "200000",
            "The maximum number of partitions in the fetch sessions of all consumers, and separately in those of share "
            "groups. Beyond it, consumers fetch without a session.", AtLeast(0)),
    Setting("barnabas.configs.max.resources", SettingKind.INT, "10000",
            "The maximum number of groups and client metrics subscriptions with configs. Unlike topics and brokers, "
            "they need not exist to have configs.", AtLeast(0)),
    Setting("barnabas.producer.ids.max", SettingKind.INT, "200000",
            "The maximum number of producer ids in the partitions of a broker, counted per partition. Beyond it, the "
            "longest idle ones are evicted: duplicates of their batches are no longer detected.",
            AtLeast(1)),
    Setting("max.request.partition.size.limit", SettingKind.INT, "2000",
            "The maximum number of partitions in a DescribeTopicPartitions response.", AtLeast(1)),
)  # fmt: skip
