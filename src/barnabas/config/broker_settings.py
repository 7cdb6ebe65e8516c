"""The settings of a broker itself: who it is, where it listens, what it limits.

Names and types are those of Apache Kafka 4.3. So are the defaults, except where a comment says why not.
"""

from __future__ import annotations

from barnabas.config.checks import AtLeast, Matching, OneOf
from barnabas.config.setting import MAX_INT, Kind, Mode, Setting

_CLUSTER_WIDE = Mode.CLUSTER_WIDE

IDENTITY_SETTINGS: tuple[Setting, ...] = (
    # Kafka demands an id; a single node should start without any setting at all.
    Setting("node.id", Kind.INT, "1", "The id of this broker, unique in its cluster.", AtLeast(0)),
    Setting("broker.id", Kind.INT, "-1", "The older name of node.id. When both are given they must agree."),
    Setting("broker.rack", Kind.STRING, None,
            "Where this broker stands. Replicas of a partition are spread over racks."),
    Setting("barnabas.host", Kind.STRING, None,
            "Name of the machine, when several brokers run on one: replicas avoid sharing a machine before "
            "they avoid sharing a rack. The host name when unset."),
    Setting("barnabas.cluster.id", Kind.STRING, None,
            "Id of the cluster, given to a new data folder; 22 characters of URL-safe base64. Made at random "
            "when unset.", Matching(r"[A-Za-z0-9_-]{22}", "22 characters of URL-safe base64")),
    Setting("zookeeper.connect", Kind.STRING, None,
            "HOST:PORT[,HOST:PORT...][/path] of the ZooKeeper that coordinates several brokers. Unset: one "
            "node that needs none."),
    Setting("zookeeper.connection.timeout.ms", Kind.INT, None,
            "How long to wait for the first connection to ZooKeeper; as zookeeper.session.timeout.ms when "
            "unset.",
            AtLeast(1)),
    # Kafka's default is 18 s. A leader that died is missed for as long, and 6 s was Kafka's until 2.5.
    Setting("zookeeper.session.timeout.ms", Kind.INT, "6000",
            "A broker that ZooKeeper has not heard of for this long is dead to its cluster.", AtLeast(1)),
    Setting("zookeeper.set.acl", Kind.BOOLEAN, "false",
            "Whether nodes in ZooKeeper may be changed only with the credentials of the broker that made "
            "them. All brokers of a cluster must have the same credentials then."),
    Setting("barnabas.zookeeper.digest", Kind.PASSWORD, None,
            "USER:PASSWORD for ZooKeeper's digest scheme."),
    Setting("barnabas.zookeeper.sasl.mechanism", Kind.STRING, None,
            "How to authenticate with SASL to ZooKeeper; Kafka takes this from a JAAS file. GSSAPI uses the "
            "ticket cache of the process.", OneOf("DIGEST-MD5", "GSSAPI")),
    Setting("barnabas.zookeeper.sasl.username", Kind.STRING, None, "The user for SASL to ZooKeeper."),
    Setting("barnabas.zookeeper.sasl.password", Kind.PASSWORD, None, "The password for SASL to ZooKeeper."),
    Setting("zookeeper.ssl.client.enable", Kind.BOOLEAN, "false", "Whether to talk TLS to ZooKeeper."),
    Setting("zookeeper.ssl.truststore.location", Kind.STRING, None,
            "A PEM file with the authorities that ZooKeeper's certificate must come from; those of the system "
            "when unset."),
    Setting("zookeeper.ssl.truststore.type", Kind.STRING, None, "Only PEM is read."),
    Setting("zookeeper.ssl.keystore.location", Kind.STRING, None,
            "A PEM file with this broker's certificate and private key, for a ZooKeeper that wants one."),
    Setting("zookeeper.ssl.keystore.type", Kind.STRING, None, "Only PEM is read."),
    Setting("zookeeper.ssl.keystore.password", Kind.PASSWORD, None,
            "The password of the private key in zookeeper.ssl.keystore.location, if it has one."),
    Setting("zookeeper.ssl.endpoint.identification.algorithm", Kind.STRING, "HTTPS",
            "HTTPS: the certificate must name the host that was connected to. Empty: any name will do."),
)  # fmt: skip

NETWORK_SETTINGS: tuple[Setting, ...] = (
    # Kafka listens on all interfaces. Without authentication that is an invitation; say so to get it.
    # Kafka can change its listeners at run time; ours are opened once.
    Setting("listeners", Kind.LIST, "PLAINTEXT://127.0.0.1:9092",
            "Where to listen: NAME://HOST:PORT, separated by commas. An empty host means all interfaces, "
            "port 0 a free port."),
    Setting("advertised.listeners", Kind.LIST, None,
            "The addresses that clients are told to connect to, needed behind NAT or published container "
            "ports. When unset a client is told the address it has reached us by."),
    Setting("listener.security.protocol.map", Kind.STRING,
            "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "The protocol of each listener: NAME:PROTOCOL, separated by commas."),
    Setting("inter.broker.listener.name", Kind.STRING, None,
            "The listener that brokers use among themselves; the first one that speaks "
            "security.inter.broker.protocol when unset."),
    Setting("barnabas.also.inter.broker.listeners", Kind.LIST, "",
            "Other listeners on which brokers are served as brokers: while inter.broker.listener.name is changed, one "
            "broker after the other."),
    Setting("security.inter.broker.protocol", Kind.STRING, "PLAINTEXT",
            "The protocol that brokers use among themselves. Set this or inter.broker.listener.name.",
            OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    Setting("controller.listener.names", Kind.LIST, "",
            "Listeners of Kafka's KRaft controllers. Accepted so that Kafka's own server.properties works; "
            "listeners named here are not opened."),
    # Kafka's 50 are few for a fleet of clients that comes back at once; the kernel caps it at its own limit.
    Setting("socket.listen.backlog.size", Kind.INT, "1024",
            "Connections that may wait to be accepted.", AtLeast(1)),
    # Kafka says 100 KiB for both, which also keeps the kernel from finding better sizes by itself.
    Setting("socket.receive.buffer.bytes", Kind.INT, "-1",
            "SO_RCVBUF of a connection; -1 leaves it to the system."),
    Setting("socket.send.buffer.bytes", Kind.INT, "-1",
            "SO_SNDBUF of a connection; -1 leaves it to the system."),
    Setting("socket.request.max.bytes", Kind.INT, "104857600",
            "The largest request; a client that announces a larger one is disconnected.", AtLeast(1)),
    # Kafka sets no bound; a broker without one can be brought down by any client.
    Setting("queued.max.request.bytes", Kind.LONG, "268435456",
            "Memory that requests being received may take together; when it is used up, sockets are not "
            "read. -1 is no limit."),
    Setting("barnabas.queued.max.request.bytes.per.ip", Kind.LONG, "-1",
            "The part of queued.max.request.bytes that requests from one address may take together; a single "
            "request may be larger. -1 is half of it."),
    Setting("barnabas.request.min.bytes.per.second", Kind.INT, "65536",
            "A request that has begun must arrive at this rate or faster.", AtLeast(1)),
    Setting("barnabas.request.late.ms", Kind.INT, "30000",
            "A connection whose request is this much later than barnabas.request.min.bytes.per.second says is closed.",
            AtLeast(1)),
    Setting("barnabas.request.late.short.memory.ms", Kind.INT, "2000",
            "The same while others wait for memory: the slowest is closed first, until there is enough.", AtLeast(1)),
    # Kafka's default is no limit. Each connection costs a file descriptor, of which a process has few.
    Setting("max.connections", Kind.INT, "10000",
            "Connections that may be open at once; fewer when the process may not open that many files.",
            AtLeast(0), mode=_CLUSTER_WIDE),
    Setting("max.connections.per.ip", Kind.INT, "5000",
            "Connections that may be open at once from one address.", AtLeast(0), mode=_CLUSTER_WIDE),
    Setting("max.connections.per.ip.overrides", Kind.STRING, "",
            "Other limits for single addresses: HOST:LIMIT, separated by commas.",
            Matching(r"\s*[^,\s]+:[0-9]+\s*(,\s*[^,\s]+:[0-9]+\s*)*", "HOST:LIMIT,HOST:LIMIT,..."),
            mode=_CLUSTER_WIDE),
    # Each broker has three connections to each other one, and some that are not yet known to be dead.
    Setting("barnabas.connections.kept.per.broker", Kind.INT, "8",
            "Connections that are kept for each other broker of the cluster, out of max.connections and beyond "
            "max.connections.per.ip: clients cannot lock brokers out.", AtLeast(0), mode=_CLUSTER_WIDE),
    Setting("max.connection.creation.rate", Kind.INT, str(MAX_INT),
            "New connections that are accepted in a second.", AtLeast(0), mode=_CLUSTER_WIDE),
    Setting("connections.max.idle.ms", Kind.LONG, "600000",
            "A connection that has been silent for this long is closed; a negative value keeps it."),
    Setting("barnabas.first.request.timeout.ms", Kind.INT, "30000",
            "A new connection that has not sent a whole request after this time is closed, and one that has not "
            "authenticated where it has to.", AtLeast(1)),
    Setting("barnabas.slow.request.ms", Kind.INT, "1000",
            "Requests that take longer than this, besides the time they asked to wait, are logged. 0 logs "
            "none.",
            AtLeast(0), mode=_CLUSTER_WIDE),
    Setting("barnabas.request.max.elements", Kind.INT, "150000",
            "The elements that all arrays of one request may have together; enough to create 5,000 topics with "
            "their settings, or to commit 50,000 offsets.", AtLeast(10_000), mode=_CLUSTER_WIDE),
    # 10,000 hold the loop for some 30 ms.
    Setting("barnabas.undivided.request.max.elements", Kind.INT, "10000",
            "The same for requests that cannot be served in parts (joining a group, say): all other clients wait "
            "while one of them is served.", AtLeast(1000), mode=_CLUSTER_WIDE),
    Setting("barnabas.heavy.request.max.bytes", Kind.INT, "16777216",
            "The longest request that has more than 1,000 elements, or that is longer than 1 MiB and no "
            "Produce.", AtLeast(1 << 20), mode=_CLUSTER_WIDE),
    # A decoded request of 150,000 elements takes about 30 MB, and so does its answer.
    Setting("barnabas.heavy.requests.at.once", Kind.INT, "2",
            "Requests of more than 1,000 elements or 1 MiB that are served at the same time, and large answers to "
            "small requests as many again. The others wait. Each takes up to 60 MB.", AtLeast(1)),
    Setting("barnabas.response.max.bytes", Kind.INT, "33554432",
            "The longest answer to a request of many elements or about many things, records not counted.",
            AtLeast(1 << 20), mode=_CLUSTER_WIDE),
    Setting("barnabas.log.lines.max", Kind.INT, "10",
            "Lines of one kind that clients can cause, such as refused requests, in 10 seconds of the broker's log. "
            "More are counted. It holds for all brokers in the process.", AtLeast(1), mode=_CLUSTER_WIDE),
    Setting("barnabas.log.line.max.characters", Kind.INT, "2000",
            "The longest line of the broker's log; longer ones are cut in the middle. It holds for all brokers in "
            "the process.", AtLeast(200), mode=_CLUSTER_WIDE),
    # Ten times what a list of topics in a pattern usually has.
    Setting("barnabas.regex.max.characters", Kind.INT, "4096",
            "The longest regular expression that a client may send. It holds for all brokers in the process.",
            AtLeast(1), mode=_CLUSTER_WIDE),
    Setting("barnabas.regex.max.bytes", Kind.INT, "524288",
            "The memory that a regular expression of a client may take, compiled. It holds for all brokers in the "
            "process.", AtLeast(4096), mode=_CLUSTER_WIDE),
    # RE2 matches 32 KB with the worst pattern of 800 instructions in 5 ms, with one of 1,600 in 300 ms.
    Setting("barnabas.regex.max.instructions", Kind.INT, "800",
            "The largest program of a regular expression that is matched with texts of any length (transactional ids, "
            "properties of clients). It holds for all brokers in the process.", AtLeast(1), mode=_CLUSTER_WIDE),
    Setting("barnabas.metrics.listen", Kind.STRING, "",
            "HOST:PORT where metrics and health are served over HTTP; empty for none. Without HOST it is 127.0.0.1; "
            "* is every address.",
            Matching(r"(\[[0-9a-fA-F:.]+\]|[^:\s]*):[0-9]{1,5}", "HOST:PORT or nothing")),
    Setting("barnabas.metrics.exporter", Kind.STRING, "auto",
            "Whether barnabas.metrics.listen also serves kafka_exporter's metrics of the cluster: on, off or auto, "
            "which is on for a node without ZooKeeper. Boards add them up, so of several brokers none or one should; "
            "in a cluster it knows only the groups that it coordinates, in partitions that it leads.",
            OneOf("auto", "on", "off")),
    Setting("barnabas.metrics.users.file", Kind.STRING, "",
            "A file with lines NAME:PASSWORD: who may read metrics (HTTP Basic). It is read again when it changes. "
            "Without it and barnabas.metrics.tokens.file, everyone who reaches barnabas.metrics.listen may."),
    Setting("barnabas.metrics.tokens.file", Kind.STRING, "",
            "A file with a token in each line: who sends one of them may read metrics (HTTP Bearer). It is read again "
            "when it changes."),
    Setting("barnabas.metrics.tls.listener", Kind.STRING, "",
            "The name of a listener with TLS whose key store and trust store barnabas.metrics.listen uses; empty: "
            "metrics are served without TLS."),
    Setting("barnabas.metrics.max.connections", Kind.INT, "32",
            "Clients of barnabas.metrics.listen at once. The oldest is closed for a new one.", AtLeast(1)),
    Setting("barnabas.metrics.max.large.answers", Kind.INT, "8",
            "Answers of more than 64 KiB that are being sent by barnabas.metrics.listen at once. The oldest is cut off "
            "for a new one.", AtLeast(1)),
    Setting("barnabas.metrics.request.timeout.ms", Kind.INT, "5000",
            "How long a client of barnabas.metrics.listen may take to send its request.", AtLeast(1)),
    Setting("barnabas.metrics.answer.timeout.ms", Kind.INT, "20000",
            "How long a client of barnabas.metrics.listen may take to read its answer.", AtLeast(1)),
    Setting("request.timeout.ms", Kind.INT, "30000",
            "How long this broker waits for another one's answer."),
)  # fmt: skip

TOPIC_MANAGEMENT_SETTINGS: tuple[Setting, ...] = (
    Setting("num.partitions", Kind.INT, "1",
            "Partitions of a topic that is created without saying how many.", AtLeast(1)),
    Setting("default.replication.factor", Kind.INT, "1",
            "Replicas of a topic that is created without saying how many.", AtLeast(1)),
    Setting("auto.create.topics.enable", Kind.BOOLEAN, "true",
            "Create a topic when a client asks for one that does not exist and allows it."),
    Setting("delete.topic.enable", Kind.BOOLEAN, "true", "Let clients delete topics."),
    # A client id is no proof of anything: in Kafka anybody who calls himself so writes other groups' offsets.
    Setting("barnabas.internal.topics.writable", Kind.BOOLEAN, "false",
            "Let clients with the client id __admin_client write to internal topics, as Apache Kafka does: for tools "
            "that restore them. Everybody may use that client id.",
            mode=_CLUSTER_WIDE),
    Setting("fetch.max.bytes", Kind.INT, "57671680",
            "The most that one fetch is answered with, whatever the client asks for.", AtLeast(1024)),
    Setting("max.incremental.fetch.session.cache.slots", Kind.INT, "1000",
            "Fetch sessions that are kept.", AtLeast(0)),
    # Kafka bounds the sessions and not what is in them. An entry takes about 400 bytes.
    Setting("barnabas.fetch.session.max.partitions", Kind.INT, "200000",
            "Partitions that the fetch sessions of all consumers may have together, and those of share groups too. "
            "Beyond that consumers fetch without a session.", AtLeast(0)),
    Setting("barnabas.configs.max.resources", Kind.INT, "10000",
            "Groups and client metrics that may have settings of their own: unlike topics and brokers, they need not "
            "exist to be given some.", AtLeast(0)),
    Setting("barnabas.producer.ids.max", Kind.INT, "200000",
            "Producer ids that all partitions of a broker remember together, each counted in every partition. "
            "Beyond that the longest silent ones are forgotten: no longer recognised when they send a batch twice.",
            AtLeast(1)),
    Setting("max.request.partition.size.limit", Kind.INT, "2000",
            "Partitions that one DescribeTopicPartitions request is answered with.", AtLeast(1)),
)  # fmt: skip
