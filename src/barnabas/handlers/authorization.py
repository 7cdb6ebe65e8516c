"""Operations and resources that each API needs, and Kafka's response when they are denied.

One row for each supported API key, in the order of the keys; compare with "Operations and Resources on
Protocols" in Kafka's documentation and with KafkaApis. A row has the needs of the whole request (`whole`),
the needs of each element of an array (`each`), and a filter of the response (`after`). The table of handlers
marks the broker-only APIs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cluster.image import ConfigResourceType as ConfigType
from barnabas.common.errors import ErrorCode
from barnabas.handlers import authorization_answers as answers
from barnabas.handlers.metadata import MetadataNeeds
from barnabas.handlers.needs import HasImage
from barnabas.handlers.produce.admission import transaction_of
from barnabas.handlers.security.denials import altered_quotas_denied, quotas_denied, users_denied
from barnabas.network.requests import (
    ActionOf,
    ApiPermissions,
    Each,
    Names,
    RequiredPermission,
    error_response,
)
from barnabas.protocol.api import ApiKey
from barnabas.security.authz import CLUSTER_NAME, Action, Operation, ResourceType

if TYPE_CHECKING:
    from barnabas.protocol.messages import configs, consumer, fetch, metadata, share, topics, transactions

    ConfiguredResource = (
        configs.DescribeConfigsResource
        | configs.AlterConfigsAlterConfigsResource
        | configs.IncrementalAlterConfigsAlterConfigsResource
    )

READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

GROUP_KEY, TRANSACTION_KEY = 0, 1  # of FindCoordinator


def on(operation: Operation, resource_type: ResourceType, field: str) -> RequiredPermission:
    """Need an operation on the resource named by a field of the message, if it names one."""
    return RequiredPermission(operation, resource_type, lambda message: (getattr(message, field),))


def on_all(operation: Operation, resource_type: ResourceType, names: Names) -> RequiredPermission:
    return RequiredPermission(operation, resource_type, names)


def on_cluster(operation: Operation, *or_else: Operation) -> RequiredPermission:
    alternatives = tuple(Action(each, CLUSTER) for each in or_else)
    return RequiredPermission(operation, CLUSTER, lambda message: (CLUSTER_NAME,), alternatives)


def topic(operation: Operation, field: str = "name") -> ActionOf:
    """Need an operation on the topic of an element: named by a field, by its id, or the element itself."""

    def action(broker: HasImage, message: object, item: object) -> Action | None:
        name = item if isinstance(item, str) else getattr(item, field, None)
        name = name or broker.image.topic_names_by_id.get(getattr(item, "topic_id", b""))
        return Action(operation, TOPIC, name) if name else None

    return action


def group(operation: Operation, field: str = "group_id") -> ActionOf:
    def action(broker: object, message: object, item: object) -> Action:
        return Action(operation, GROUP, item if isinstance(item, str) else getattr(item, field))

    return action


def config_of(operation: Operation) -> ActionOf:
    """Need an operation on the topic or group that is configured; configs of brokers, loggers and client
    metrics need it on the cluster.
    """

    def action(broker: object, message: object, item: ConfiguredResource) -> Action:
        if item.resource_type == ConfigType.TOPIC:
            return Action(operation, TOPIC, item.resource_name)
        if item.resource_type == ConfigType.GROUP:
            return Action(operation, GROUP, item.resource_name)
        return Action(operation, CLUSTER)

    return action


def _coordinator_key(broker: object, message: metadata.FindCoordinatorRequest, key: str) -> Action:
    if message.key_type == GROUP_KEY:
        return Action(DESCRIBE, GROUP, key)
    if message.key_type == TRANSACTION_KEY:
        return Action(DESCRIBE, TRANSACTIONAL_ID, key)
    return Action(CLUSTER_ACTION, CLUSTER)


def _single_key(key_type: int) -> Names:
    """Key of FindCoordinator before version 4."""
    return lambda message: (
        (message.key,) if not message.coordinator_keys and message.key_type == key_type else ()
    )


def _auto_created(
    broker: MetadataNeeds, message: metadata.MetadataRequest, item: metadata.MetadataRequestTopic
) -> Action | None:
    """Metadata creates a missing topic that is named, if auto-creation is enabled."""
    is_enabled = message.allow_auto_topic_creation and broker.config["auto.create.topics.enable"]
    if not is_enabled or not item.name or item.name in broker.image.topics:
        return None
    return Action(CREATE, TOPIC, item.name)


def _deleted(broker: HasImage, message: object, item: object) -> Action | None:
    """Need Delete on an existing topic; a principal that may describe it learns that it does not exist."""
    action = topic(DELETE)(broker, message, item)
    return action if action is not None and action.name in broker.image.topics else None


def _with_name(broker: HasImage, answered: topics.DeletableTopicResult) -> None:
    answered.name = answered.name or broker.image.topic_names_by_id.get(answered.topic_id)


def _as_replica(message: fetch.FetchRequest) -> tuple[str, ...]:
    is_replica = message.replica_state.replica_id >= 0 or message.replica_id >= 0
    return (CLUSTER_NAME,) if is_replica else ()


def _error_next_to_denied(broker: HasImage, item: transactions.AddPartitionsToTxnTopic) -> ErrorCode:
    """Partitions are added to a transaction all or none."""
    is_known = item.name in broker.image.topics
    return ErrorCode.OPERATION_NOT_ATTEMPTED if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _transaction(broker: object, message: object, transactional_id: str) -> Action:
    return Action(DESCRIBE, TRANSACTIONAL_ID, transactional_id)


def _subscribed(
    message: consumer.ConsumerGroupHeartbeatRequest | share.ShareGroupHeartbeatRequest,
) -> list[str]:
    return message.subscribed_topic_names or []


OPEN = ApiPermissions()
BROKERS = ApiPermissions(whole=(on_cluster(CLUSTER_ACTION),))
CREATE_ANY = (Action(CREATE, CLUSTER),)
DELETE_ANY = (Action(DELETE, CLUSTER),)
IN_GROUP = ApiPermissions(whole=(on(READ, GROUP, "group_id"),))
ALTER_CLUSTER = ApiPermissions(whole=(on_cluster(ALTER),))
# Kafka's responses that repeat the top-level error in each element.
ALTER_CLUSTER_EVERYWHERE = ALTER_CLUSTER._replace(
    refuse=lambda message, version, error: error_response(message, error, version)
)
ALTER_OF_CONFIGS = ApiPermissions(each=(Each("resources", "responses", config_of(ALTER_CONFIGS)),))
DESCRIBED_GROUPS = ApiPermissions(
    each=(Each("group_ids", "groups", group(DESCRIBE)),),
    after=(answers.described_groups_show_topics, answers.shown_group_operations),
)

RULES: dict[ApiKey, ApiPermissions] = {
    ApiKey.PRODUCE: ApiPermissions(
        whole=(on_all(WRITE, TRANSACTIONAL_ID, transaction_of),),
        each=(Each("topic_data", "responses", topic(WRITE)),),
        filled={"base_offset": -1},
        is_unanswered=lambda message: message.acks == 0,
    ),
    # A session names topics once: the handler checks Read on every read.
    ApiKey.FETCH: ApiPermissions(
        whole=(on_all(CLUSTER_ACTION, CLUSTER, _as_replica),),
        refuse=answers.fetch_denied,
        filled={"records": b"", "high_watermark": -1},
    ),
    ApiKey.LIST_OFFSETS: ApiPermissions(
        each=(Each("topics", "topics", topic(DESCRIBE)),), filled={"timestamp": -1}
    ),
    ApiKey.METADATA: ApiPermissions(
        each=(
            Each("topics", "topics", topic(DESCRIBE)),
            Each("topics", "topics", _auto_created, or_else=CREATE_ANY),
        ),
        after=(answers.authorized_topics, answers.shown_topic_operations, answers.shown_cluster_operations),
        is_served_empty=True,
    ),
    ApiKey.OFFSET_COMMIT: ApiPermissions(
        whole=(on(READ, GROUP, "group_id"),), each=(Each("topics", "topics", topic(READ)),)
    ),
    ApiKey.OFFSET_FETCH: ApiPermissions(
        whole=(on_all(DESCRIBE, GROUP, lambda message: () if message.groups else (message.group_id,)),),
        each=(Each("groups", "groups", group(DESCRIBE), is_flat=True),),
        after=(answers.offsets_of_topics,),
        filled={"committed_offset": -1},
    ),
    ApiKey.FIND_COORDINATOR: ApiPermissions(
        whole=(
            on_all(DESCRIBE, GROUP, _single_key(GROUP_KEY)),
            on_all(DESCRIBE, TRANSACTIONAL_ID, _single_key(TRANSACTION_KEY)),
        ),
        each=(Each("coordinator_keys", "coordinators", _coordinator_key),),
        filled={"node_id": -1, "port": -1},
    ),
    ApiKey.JOIN_GROUP: IN_GROUP._replace(refuse=answers.join_denied),
    ApiKey.HEARTBEAT: IN_GROUP,
    ApiKey.LEAVE_GROUP: IN_GROUP,
    ApiKey.SYNC_GROUP: IN_GROUP,
    ApiKey.DESCRIBE_GROUPS: ApiPermissions(
        each=(Each("groups", "groups", group(DESCRIBE)),), after=(answers.shown_group_operations,)
    ),
    ApiKey.LIST_GROUPS: ApiPermissions(after=(answers.listed_groups,)),
    ApiKey.API_VERSIONS: OPEN,
    ApiKey.SASL_HANDSHAKE: OPEN,
    ApiKey.SASL_AUTHENTICATE: OPEN,
    ApiKey.CREATE_TOPICS: ApiPermissions(
        each=(Each("topics", "topics", topic(CREATE), or_else=CREATE_ANY),), after=(answers.visible_configs,)
    ),
    ApiKey.DELETE_TOPICS: ApiPermissions(
        each=(
            Each("topics", "responses", topic(DESCRIBE), or_else=DELETE_ANY),
            Each("topic_names", "responses", topic(DESCRIBE), or_else=DELETE_ANY),
            Each("topics", "responses", _deleted, or_else=DELETE_ANY, shown=_with_name),
            Each("topic_names", "responses", _deleted, or_else=DELETE_ANY),
        )
    ),
    ApiKey.DELETE_RECORDS: ApiPermissions(
        each=(Each("topics", "topics", topic(DELETE)),), filled={"low_watermark": -1}
    ),
    ApiKey.INIT_PRODUCER_ID: ApiPermissions(
        whole=(
            on(WRITE, TRANSACTIONAL_ID, "transactional_id"),
            on_all(
                Operation.TWO_PHASE_COMMIT,
                TRANSACTIONAL_ID,
                lambda message: (message.transactional_id,) if message.enable2_pc else (),
            ),
            RequiredPermission(
                Operation.IDEMPOTENT_WRITE,
                CLUSTER,
                lambda message: () if message.transactional_id is not None else (CLUSTER_NAME,),
                or_anywhere=(WRITE, TOPIC),
            ),
        ),
        filled={"producer_epoch": -1},
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ApiPermissions(
        each=(Each("topics", "topics", topic(DESCRIBE, "topic"), or_else=(Action(CLUSTER_ACTION, CLUSTER),)),)
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: ApiPermissions(
        whole=(
            on_all(CLUSTER_ACTION, CLUSTER, lambda message: (CLUSTER_NAME,) if message.transactions else ()),
            on_all(
                WRITE,
                TRANSACTIONAL_ID,
                lambda message: () if message.transactions else (message.v3_and_below_transactional_id,),
            ),
        ),
        each=(
            Each(
                "v3_and_below_topics",
                "results_by_topic_v3_and_below",
                topic(WRITE),
                others=_error_next_to_denied,
            ),
        ),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: ApiPermissions(
        whole=(on(WRITE, TRANSACTIONAL_ID, "transactional_id"), on(READ, GROUP, "group_id"))
    ),
    ApiKey.END_TXN: ApiPermissions(whole=(on(WRITE, TRANSACTIONAL_ID, "transactional_id"),)),
    ApiKey.WRITE_TXN_MARKERS: ApiPermissions(whole=(on_cluster(CLUSTER_ACTION, ALTER),)),  # KIP-1037
    ApiKey.TXN_OFFSET_COMMIT: ApiPermissions(
        whole=(on(WRITE, TRANSACTIONAL_ID, "transactional_id"), on(READ, GROUP, "group_id")),
        each=(Each("topics", "topics", topic(READ)),),
    ),
    ApiKey.DESCRIBE_ACLS: ApiPermissions(whole=(on_cluster(DESCRIBE),)),
    ApiKey.CREATE_ACLS: ALTER_CLUSTER_EVERYWHERE,
    ApiKey.DELETE_ACLS: ALTER_CLUSTER_EVERYWHERE,
    ApiKey.DESCRIBE_CONFIGS: ApiPermissions(
        each=(Each("resources", "results", config_of(DESCRIBE_CONFIGS)),)
    ),
    ApiKey.ALTER_CONFIGS: ALTER_OF_CONFIGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS: ALTER_CLUSTER._replace(refuse=answers.log_dirs_denied),
    ApiKey.DESCRIBE_LOG_DIRS: ApiPermissions(whole=(on_cluster(DESCRIBE),), refuse=answers.only_at_the_top),
    ApiKey.CREATE_PARTITIONS: ApiPermissions(each=(Each("topics", "results", topic(ALTER)),)),
    # Owners and renewers need no permission, and who may ask depends on the authentication: the handlers
    # check.
    ApiKey.CREATE_DELEGATION_TOKEN: OPEN,
    ApiKey.RENEW_DELEGATION_TOKEN: OPEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN: OPEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: OPEN,
    ApiKey.DELETE_GROUPS: ApiPermissions(each=(Each("groups_names", "results", group(DELETE)),)),
    ApiKey.ELECT_LEADERS: ALTER_CLUSTER_EVERYWHERE,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ALTER_OF_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ALTER_CLUSTER_EVERYWHERE,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ApiPermissions(whole=(on_cluster(DESCRIBE),)),
    ApiKey.OFFSET_DELETE: ApiPermissions(
        whole=(on(DELETE, GROUP, "group_id"),), each=(Each("topics", "topics", topic(READ)),)
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ApiPermissions(
        whole=(on_cluster(DESCRIBE_CONFIGS),), refuse=quotas_denied
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: ApiPermissions(
        whole=(on_cluster(ALTER_CONFIGS),), refuse=altered_quotas_denied
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ApiPermissions(
        whole=(on_cluster(DESCRIBE),), refuse=answers.only_at_the_top
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ALTER_CLUSTER._replace(refuse=users_denied),
    ApiKey.ALTER_PARTITION: BROKERS,
    ApiKey.UPDATE_FEATURES: ALTER_CLUSTER,
    ApiKey.ENVELOPE: BROKERS,
    ApiKey.DESCRIBE_CLUSTER: ApiPermissions(after=(answers.shown_cluster_operations,)),
    ApiKey.DESCRIBE_PRODUCERS: ApiPermissions(each=(Each("topics", "topics", topic(READ)),)),
    ApiKey.BROKER_HEARTBEAT: BROKERS,
    ApiKey.UNREGISTER_BROKER: ALTER_CLUSTER,
    ApiKey.DESCRIBE_TRANSACTIONS: ApiPermissions(
        each=(Each("transactional_ids", "transaction_states", _transaction),),
        after=(answers.topics_of_transactions,),
    ),
    ApiKey.LIST_TRANSACTIONS: ApiPermissions(after=(answers.listed_transactions,)),
    ApiKey.ALLOCATE_PRODUCER_IDS: BROKERS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ApiPermissions(
        whole=(on(READ, GROUP, "group_id"), on_all(DESCRIBE, TOPIC, _subscribed))
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: DESCRIBED_GROUPS,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: OPEN,
    ApiKey.PUSH_TELEMETRY: OPEN,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: BROKERS,
    ApiKey.LIST_CONFIG_RESOURCES: ApiPermissions(whole=(on_cluster(DESCRIBE_CONFIGS),)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ApiPermissions(
        each=(Each("topics", "topics", topic(DESCRIBE)),),
        before=answers.allowed_topics_of_all,
        after=(answers.shown_topic_operations,),
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: ApiPermissions(
        whole=(on(READ, GROUP, "group_id"), on_all(DESCRIBE, TOPIC, _subscribed))
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: DESCRIBED_GROUPS,
    ApiKey.SHARE_FETCH: ApiPermissions(
        whole=(on(READ, GROUP, "group_id"),),
        each=(Each("topics", "responses", topic(READ)),),
        before=answers.forget_denied_topics,
        filled={"records": b""},
        is_served_empty=True,
    ),
    ApiKey.SHARE_ACKNOWLEDGE: ApiPermissions(
        whole=(on(READ, GROUP, "group_id"),),
        each=(Each("topics", "responses", topic(READ)),),
        is_served_empty=True,
    ),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: BROKERS,
    ApiKey.READ_SHARE_GROUP_STATE: BROKERS,
    ApiKey.WRITE_SHARE_GROUP_STATE: BROKERS,
    ApiKey.DELETE_SHARE_GROUP_STATE: BROKERS,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: BROKERS,
    ApiKey.STREAMS_GROUP_HEARTBEAT: ApiPermissions(
        whole=(on(READ, GROUP, "group_id"), on_all(DESCRIBE, TOPIC, answers.topics_of_topology)),
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: DESCRIBED_GROUPS,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: IN_GROUP,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ApiPermissions(
        each=(Each("groups", "groups", group(DESCRIBE), is_flat=True),), after=(answers.authorized_groups,)
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: ApiPermissions(
        whole=(on(READ, GROUP, "group_id"),), each=(Each("topics", "responses", topic(READ, "topic_name")),)
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ApiPermissions(
        whole=(on(DELETE, GROUP, "group_id"),),
        each=(Each("topics", "responses", topic(READ, "topic_name")),),
        is_served_empty=True,
    ),
    ApiKey.APPEND_MIRRORED: ApiPermissions(
        whole=(on_cluster(ALTER),),
        each=(Each("topics", "topics", topic(WRITE)),),
    ),
    ApiKey.ALTER_MIRRORS: ApiPermissions(
        whole=(on_cluster(ALTER),), each=(Each("topics", "topics", topic(WRITE)),)
    ),
    ApiKey.DESCRIBE_MIRRORS: ApiPermissions(
        each=(Each("topics", "topics", topic(DESCRIBE)),),
        after=(answers.described_mirrors,),
        is_served_empty=True,
    ),
    ApiKey.SETTLE_MIRRORS: BROKERS,
}
