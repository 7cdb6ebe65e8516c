"""Blocking administration."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from barnabas.client import admin
from barnabas.client.api.administration import Acl, AsyncAdmin, ConfigSetting, GroupListing
from barnabas.client.api.loop import shared_loop
from barnabas.client.api.options import ClientOptions
from barnabas.client.api.producing import Offsets, Timestamp
from barnabas.client.group_details import GroupDetails
from barnabas.client.groups import CommittedOffset
from barnabas.client.metadata import ClusterMetadata, TopicMetadata
from barnabas.common.types import TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

T = TypeVar("T")


class BlockingAdmin:
    """Administration; `barnabas.Admin`. Rejections raise KafkaError with the broker's reason.

    with Admin("localhost:9092") as admin:
        admin.create_topic("orders", partitions=6)
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._loop = shared_loop()
        self._admin = AsyncAdmin(bootstrap_servers, config=config, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._run(self._admin.close())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(coroutine)

    def describe_cluster(self) -> ClusterMetadata:
        """Cluster id, controller and brokers."""
        return self._run(self._admin.describe_cluster())

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = admin.BROKER_DEFAULT,
        replication_factor: int = admin.BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic; by default with the broker's partition count and replication factor."""
        self._run(
            self._admin.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                validate_only=validate_only,
            )
        )

    def list_topics(self, *, internal: bool = False) -> list[str]:
        return self._run(self._admin.list_topics(internal=internal))

    def describe_topics(self, *names: str) -> dict[str, TopicMetadata]:
        """Partitions with leader, replicas and ISR; of all topics without arguments."""
        return self._run(self._admin.describe_topics(*names))

    def delete_topics(self, *names: str) -> None:
        self._run(self._admin.delete_topics(*names))

    def create_partitions(self, topic: str, count: int) -> None:
        """Grow a topic to `count` partitions."""
        self._run(self._admin.create_partitions(topic, count))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete records below an offset (-1: all); returns the new start offsets."""
        return self._run(self._admin.delete_records(before))

    def topic_configs(self, topic: str) -> dict[str, ConfigSetting]:
        return self._run(self._admin.topic_configs(topic))

    def broker_configs(self, broker_id: int) -> dict[str, ConfigSetting]:
        return self._run(self._admin.broker_configs(broker_id))

    def alter_topic_configs(
        self, topic: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set configs; None resets one to its default. Others are left alone."""
        self._run(self._admin.alter_topic_configs(topic, changes, validate_only=validate_only))

    def alter_broker_configs(
        self, broker_id: int | None, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set configs of one broker, or of all (None) while they run."""
        self._run(self._admin.alter_broker_configs(broker_id, changes, validate_only=validate_only))

    def beginning_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        return self._run(self._admin.beginning_offsets(*partitions))

    def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        return self._run(self._admin.end_offsets(*partitions))

    def offsets_for_time(
        self, timestamp: Timestamp, *partitions: TopicPartition
    ) -> dict[TopicPartition, int]:
        """First offset at or after a timestamp; -1 if no record is that new."""
        return self._run(self._admin.offsets_for_time(timestamp, *partitions))

    def list_groups(self) -> list[GroupListing]:
        return self._run(self._admin.list_groups())

    def describe_group(self, group: str) -> GroupDetails:
        """State, members, committed offsets and lag of a consumer or streams group, classic or not."""
        return self._run(self._admin.describe_group(group))

    def group_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        return self._run(self._admin.group_offsets(group))

    def alter_group_offsets(self, group: str, committed: Offsets) -> None:
        """Commit offsets for a group without members."""
        self._run(self._admin.alter_group_offsets(group, committed))

    def delete_groups(self, *names: str) -> None:
        self._run(self._admin.delete_groups(*names))

    def create_acls(self, *wanted: Acl) -> None:
        self._run(self._admin.create_acls(*wanted))

    def list_acls(self, principal: str | None = None) -> list[Acl]:
        """All ACLs, or those of one principal."""
        return self._run(self._admin.list_acls(principal))

    def delete_acls(self, *wanted: Acl) -> list[Acl]:
        """Delete exactly these ACLs; returns those that existed."""
        return self._run(self._admin.delete_acls(*wanted))
