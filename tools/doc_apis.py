"""COMPATIBILITY.md: every API of the newest Kafka as served, internal, or not served with the reason."""

from barnabas.handlers.table import HANDLERS
from barnabas.network.requests.routes import Handler
from barnabas.protocol.api import APIS, OWN_API, ApiKey
from tools.doc_marks import GENERATED

NEWEST = "4.4"
"""Version of Apache Kafka whose messages are declared and whose keys are listed."""

REMOVED = "Removed in Kafka 4.0; older controllers sent it to brokers."
VOTES = (
    "KRaft only: sent between voters of the controller quorum. Barnabas elects the controller with ZooKeeper."
)
VOTERS = "KRaft only: Barnabas' metadata is in ZooKeeper; change its voters with ZooKeeper's tools."

NOT_SERVED: dict[ApiKey, str] = {
    ApiKey.LEADER_AND_ISR: REMOVED,
    ApiKey.STOP_REPLICA: REMOVED,
    ApiKey.UPDATE_METADATA: REMOVED,
    ApiKey.CONTROLLED_SHUTDOWN: REMOVED,
    ApiKey.VOTE: VOTES,
    ApiKey.BEGIN_QUORUM_EPOCH: VOTES,
    ApiKey.END_QUORUM_EPOCH: VOTES,
    ApiKey.DESCRIBE_QUORUM: "KRaft only: Barnabas has no controller quorum. DescribeCluster names the controller.",
    ApiKey.FETCH_SNAPSHOT: "KRaft only: brokers read metadata snapshots from ZooKeeper.",
    ApiKey.BROKER_REGISTRATION: "KRaft only: a broker registers in ZooKeeper (`/brokers/ids`).",
    ApiKey.CONTROLLER_REGISTRATION: "KRaft only: any broker can become the controller, without a registration.",
    ApiKey.ADD_RAFT_VOTER: VOTERS,
    ApiKey.REMOVE_RAFT_VOTER: VOTERS,
    ApiKey.UPDATE_RAFT_VOTER: VOTES,
    ApiKey.UNREGISTER_CONTROLLER: "KRaft only: it removes the registration of a controller, and Barnabas stores none. "
    "UnregisterBroker removes that of a broker.",
}

# Remarks about served APIs.
NOTES: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "Advertised from version 0 for librdkafka (KAFKA-18659); 0 to 2 are rejected, as in Kafka.",
    ApiKey.PUSH_TELEMETRY: "Pushed metrics appear at `/metrics`; Kafka passes them to a plugin.",
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: "Stored with the group in `__consumer_offsets`; Kafka "
    "passes it to a plugin ([streams groups](docs/concepts/streams-groups.md)).",
    ApiKey.ENVELOPE: "A client request that a broker forwards to the controller, with the client's principal.",
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
                f"Every API of Kafka {NEWEST}'s protocol by key, from the table that builds the ApiVersions response:\n"
                "*served*, *internal* (served to brokers only, on the inter-broker listener of a cluster;\n"
                "[reasons](docs/decisions/0021-broker-only-powers.md)), or *not served*, with the reason.\n"
                "An API version is served once a test with a real client passes. ApiVersions does not list APIs that\n"
                "are not served: clients report them as unsupported.\n"
            ),
            "| key | API | versions | | |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "Barnabas' APIs for [mirrors](docs/mirror.md). Other clients ignore them in the ApiVersions response.\n",
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
    notes = [f"To brokers only from version {since}."] if since else []
    notes += [_behind(handler), NOTES.get(key, "")]
    return f"| {int(key)} | {APIS[key].name} | {versions} | {status} | {' '.join(filter(None, notes))} |"


def _behind(handler: Handler) -> str:
    newest = handler.request_class.max_version
    return f"Kafka {NEWEST} has version {newest}." if handler.max_version < newest else ""


def _not_served(key: ApiKey) -> str:
    name = APIS[key].name if key in APIS else key.name.title().replace("_", "")
    reason = NOT_SERVED.get(key)
    if reason is None:
        raise ValueError(
            f"{key.name} is neither served nor in NOT_SERVED: add the reason to tools/doc_apis.py"
        )
    return f"| {int(key)} | {name} | | not served | {reason} |"
