"""Administration for asyncio: topics, configs, groups, offsets and ACLs, with typed results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

from barnabas.client import admin, group_details, groups, offsets
from barnabas.client.access import acls as acl_requests
from barnabas.client.api.consuming import moment_of
from barnabas.client.api.options import CheckedOptions, ClientOptions
from barnabas.client.api.producing import Offsets, Timestamp
from barnabas.client.group_details import GroupDetails
from barnabas.client.groups import CommittedOffset
from barnabas.client.metadata import ClusterMetadata, TopicMetadata
from barnabas.common.types import TopicPartition
from barnabas.security.authz import CLUSTER_NAME, AclFilter, Operation, ResourceType
from barnabas.security.authz.acls import ALL_OPERATIONS, WILDCARD, AclBinding, PatternType, Permission

if TYPE_CHECKING:
    from typing import Unpack

ResourceName: TypeAlias = Literal["topic", "group", "cluster", "transactional-id", "delegation-token", "user"]
ANY = 1  # in an ACL filter


class ConfigSetting(NamedTuple):
    """A setting. `value` is None if it is sensitive or not set."""

    name: str
    value: str | None
    source: str
    is_default: bool
    is_sensitive: bool
    is_read_only: bool


class GroupListing(NamedTuple):
    group: str
    type: str
    state: str
    protocol: str
    coordinator: int


class Acl(NamedTuple):
    """Allows or denies an operation. A name such as `orders.*` is a prefix, `*` alone matches every name."""

    principal: str
    operation: str
    resource: ResourceName = "topic"
    name: str = WILDCARD
    permission: Literal["allow", "deny"] = "allow"
    host: str = WILDCARD


class AsyncAdmin:
    """Administration for asyncio. Rejections raise KafkaError with the broker's reason.

    async with AsyncAdmin("localhost:9092") as admin:
        await admin.create_topic("orders", partitions=6)
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._client = CheckedOptions("Admin", ClientOptions, bootstrap_servers, config, options).client()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.close()

    async def describe_cluster(self) -> ClusterMetadata:
        """Cluster id, controller and brokers."""
        return await self._client.refresh([])

    # -- topics -------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = admin.BROKER_DEFAULT,
        replication_factor: int = admin.BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic; by default with the broker's partition count and replication factor."""
        await admin.create_topic(
            self._client,
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
            validate_only=validate_only,
        )
        if not validate_only:
            await self._client.topics([name], create=True)  # known to the broker that is asked next

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        found = await self._client.all_topics()
        return sorted(name for name, topic in found.items() if internal or not topic.internal)

    async def describe_topics(self, *names: str) -> dict[str, TopicMetadata]:
        """Partitions with leader, replicas and ISR; of all topics without arguments."""
        return await (self._client.topics(names) if names else self._client.all_topics())

    async def delete_topics(self, *names: str) -> None:
        await admin.delete_topics(self._client, names)

    async def create_partitions(self, topic: str, count: int) -> None:
        """Grow a topic to `count` partitions."""
        await admin.create_partitions(self._client, topic, count)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete records below an offset (-1: all); returns the new start offsets."""
        tps = list(before)
        starts = await asyncio.gather(*(admin.delete_records(self._client, tp, before[tp]) for tp in tps))
        return dict(zip(tps, starts, strict=True))

    # -- configs ------------------------------------------------------------------------------------

    async def topic_configs(self, topic: str) -> dict[str, ConfigSetting]:
        return await self._configs(admin.TOPIC, topic)

    async def broker_configs(self, broker_id: int) -> dict[str, ConfigSetting]:
        return await self._configs(admin.BROKER, str(broker_id))

    async def alter_topic_configs(
        self, topic: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set configs; None resets one to its default. Others are left alone."""
        await self._alter(admin.TOPIC, topic, changes, validate_only=validate_only)

    async def alter_broker_configs(
        self, broker_id: int | None, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set configs of one broker, or of all (None) while they run."""
        name = "" if broker_id is None else str(broker_id)
        await self._alter(admin.BROKER, name, changes, validate_only=validate_only)

    async def _configs(self, resource: int, name: str) -> dict[str, ConfigSetting]:
        found = await admin.describe_configs(self._client, resource, name)
        return {
            entry.name: ConfigSetting(
                entry.name,
                entry.value,
                admin.CONFIG_SOURCES.get(entry.config_source, "unknown"),
                entry.config_source == admin.DEFAULT_VALUE,
                entry.is_sensitive,
                entry.read_only,
            )
            for entry in found
        }

    async def _alter(
        self, resource: int, name: str, changes: Mapping[str, str | None], *, validate_only: bool
    ) -> None:
        wanted = [
            admin.ConfigChange(key, value, admin.DELETE if value is None else admin.SET)
            for key, value in changes.items()
        ]
        await admin.alter_configs(self._client, resource, name, wanted, validate_only=validate_only)

    # -- offsets and groups -------------------------------------------------------------------------

    async def beginning_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        return await offsets.beginning_offsets(self._client, partitions)

    async def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        return await offsets.end_offsets(self._client, partitions)

    async def offsets_for_time(
        self, timestamp: Timestamp, *partitions: TopicPartition
    ) -> dict[TopicPartition, int]:
        """First offset at or after a timestamp; -1 if no record is that new."""
        time_text = moment_of(timestamp)
        found = await offsets.list_offsets(self._client, dict.fromkeys(partitions, time_text))
        return {tp: answer.offset for tp, answer in found.items()}

    async def list_groups(self) -> list[GroupListing]:
        return sorted(
            GroupListing(
                group.group_id, group.group_type or "classic", group.group_state, group.protocol_type, broker
            )
            for broker, group in await groups.list_groups(self._client)
        )

    async def describe_group(self, group: str) -> GroupDetails:
        """State, members, committed offsets and lag of a consumer or streams group, classic or not."""
        return await group_details.describe_group(self._client, group)

    async def group_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        return await groups.committed_offsets(self._client, group)

    async def alter_group_offsets(self, group: str, committed: Offsets) -> None:
        """Commit offsets for a group without members."""
        await groups.commit_offsets(self._client, group, committed)

    async def delete_groups(self, *names: str) -> None:
        for name in names:
            await groups.delete_group(self._client, name)

    # -- ACLs ---------------------------------------------------------------------------------------

    async def create_acls(self, *wanted: Acl) -> None:
        await acl_requests.create_acls(self._client, [_binding(acl) for acl in wanted])

    async def list_acls(self, principal: str | None = None) -> list[Acl]:
        """All ACLs, or those of one principal."""
        wanted = AclFilter(ANY, None, ANY, principal, None, ANY, ANY)
        return [_acl(binding) for binding in await acl_requests.describe_acls(self._client, wanted)]

    async def delete_acls(self, *wanted: Acl) -> list[Acl]:
        """Delete exactly these ACLs; returns those that existed."""
        filters = [
            AclFilter(
                acl.resource_type,
                acl.name,
                acl.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission,
            )
            for acl in map(_binding, wanted)
        ]
        return [_acl(binding) for binding in await acl_requests.delete_acls(self._client, filters)]


def _binding(acl: Acl) -> AclBinding:
    resource = _member(ResourceType, acl.resource, "resource")
    word = acl.operation.replace("_", "-").lower()
    operation = ALL_OPERATIONS if word == "all" else _member(Operation, word, "operation")
    name = CLUSTER_NAME if resource == ResourceType.CLUSTER and acl.name == WILDCARD else acl.name
    on = acl_requests.pattern(resource, name)
    permission = _member(Permission, acl.permission, "permission")
    principal = acl_requests.check_principal(acl.principal)
    return AclBinding(*on, principal, acl_requests.check_hosts([acl.host])[0], operation, permission)


def _member(kind: Any, word: str, what: str) -> Any:
    found = getattr(kind, word.replace("-", "_").upper(), None)
    if found is None:
        names = ", ".join(member.name.lower().replace("_", "-") for member in kind)
        raise ValueError(f"{word!r} is not a valid {what} of an ACL; valid: {names}")
    return found


def _acl(binding: AclBinding) -> Acl:
    is_prefix = binding.pattern_type == PatternType.PREFIXED
    return Acl(
        binding.principal,
        acl_requests.operation_word(binding.operation),
        ResourceType(binding.resource_type).name.lower().replace("_", "-"),  # type: ignore[arg-type]  # of an enum
        f"{binding.name}{WILDCARD}" if is_prefix else binding.name,
        "allow" if binding.permission == Permission.ALLOW else "deny",
        binding.host,
    )
