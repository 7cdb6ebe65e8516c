"""The page that says of every API of the newest Kafka: served, served to brokers, or not served and why."""

from barnabas.handlers.table import HANDLERS
from barnabas.network.requests.routes import Handler
from barnabas.protocol.api import APIS, OWN_API, ApiKey
from tools.doc_marks import GENERATED

NEWEST = "4.4"
"""Of Apache Kafka: the version whose messages are declared, and whose keys are listed."""

REMOVED = "Kafka 4.0 removed it; the controller of an older Kafka sent it to brokers."
VOTES = "KRaft's: controllers that vote send it to each other. Here ZooKeeper elects the controller."

NOT_SERVED: dict[ApiKey, str] = {
    ApiKey.LEADER_AND_ISR: REMOVED,
    ApiKey.STOP_REPLICA: REMOVED,
    ApiKey.UPDATE_METADATA: REMOVED,
    ApiKey.CONTROLLED_SHUTDOWN: REMOVED,
    ApiKey.VOTE: VOTES,
    ApiKey.BEGIN_QUORUM_EPOCH: VOTES,
    ApiKey.END_QUORUM_EPOCH: VOTES,
    ApiKey.DESCRIBE_QUORUM: "KRaft's: there is no quorum of controllers. DescribeCluster names the controller.",
    ApiKey.FETCH_SNAPSHOT: "KRaft's: brokers read snapshots of the metadata from ZooKeeper.",
    ApiKey.BROKER_REGISTRATION: "KRaft's: a broker registers itself in ZooKeeper (`/brokers/ids`).",
    ApiKey.CONTROLLER_REGISTRATION: "KRaft's: every broker can be the controller, none registers as one.",
    ApiKey.ADD_RAFT_VOTER: "KRaft's: the voters are ZooKeeper's, and changed with its own tools.",
    ApiKey.REMOVE_RAFT_VOTER: "KRaft's: the voters are ZooKeeper's, and changed with its own tools.",
    ApiKey.UPDATE_RAFT_VOTER: VOTES,
    ApiKey.UNREGISTER_CONTROLLER: "KRaft's: it forgets a controller that has registered, and none does here; "
    "nothing is stored that it could take away. UnregisterBroker forgets a broker.",
}

# What a reader would ask about an API that is served.
NOTES: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "Advertised from 0 on for librdkafka (KAFKA-18659); 0 to 2 are refused, as by Kafka.",
    ApiKey.PUSH_TELEMETRY: "What clients push is shown at `/metrics`; Kafka hands it to a plugin.",
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: "Stored with the group in `__consumer_offsets`; Kafka hands "
    "it to a plugin ([streams groups](docs/concepts/streams-groups.md)).",
    ApiKey.ENVELOPE: "A request that a broker forwards to the controller, and who sent it.",
}


def compatibility_page() -> str:
    served = {handler.request_class.api_key: handler for handler in HANDLERS}
    rows = [
        _served(key, served[key]) if key in served else _not_served(key) for key in ApiKey if key < OWN_API
    ]
    own = [_served(key, served[key]) for key in ApiKey if key >= OWN_API and key in served]
    return "\n".join(
        [
            GENERATED,
            "# Compatibility\n",
            (
                f"Every API of Kafka {NEWEST}'s protocol by its key, from the table that also answers ApiVersions:\n"
                "*served*, *internal* (served to brokers, on the inter-broker listener of a cluster;\n"
                "[why](docs/decisions/0021-broker-only-powers.md)), or *not served*, and why.\n"
                "An API and a version are served once a real client's test of it passes. What is not served is not\n"
                "in the answer to ApiVersions either: clients say that it is unsupported.\n"
            ),
            "| key | API | versions | | |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "APIs of our own, which clients pass over in the answer to ApiVersions; what they are for says",
            "[the page about mirrors](docs/mirror.md).\n",
            "| key | API | versions | | |",
            "|---|---|---|---|---|",
            *own,
            "",
        ]
    )


def _served(key: ApiKey, handler: Handler) -> str:
    versions = f"{handler.min_version} to {handler.max_version}"
    since = handler.brokers_only_since
    status = "served" if since is None or since > 0 else "internal"
    notes = [f"To brokers only from {since} on."] if since else []
    notes += [_behind(handler), NOTES.get(key, "")]
    return f"| {int(key)} | {APIS[key].name} | {versions} | {status} | {' '.join(filter(None, notes))} |"


def _behind(handler: Handler) -> str:
    newest = handler.request_class.max_version
    return f"Kafka {NEWEST} has {newest}." if handler.max_version < newest else ""


def _not_served(key: ApiKey) -> str:
    name = APIS[key].name if key in APIS else key.name.title().replace("_", "")
    reason = NOT_SERVED.get(key)
    if reason is None:
        raise ValueError(f"{key.name} is neither served nor in NOT_SERVED: say why in tools/doc_apis.py")
    return f"| {int(key)} | {name} | | not served | {reason} |"
