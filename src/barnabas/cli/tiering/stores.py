"""Object store access of commands: a broker returns cluster and topic ids, the objects are read directly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from barnabas.cli.options import complete_topic, parse_settings, with_client

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.common.types import Uuid
    from barnabas.tiering.objects import PartitionFolder
    from barnabas.tiering.stores import ObjectStore


# -- Errors of commands that use the object store. Their texts need no explanation ---------------------


class TierError(Exception):
    """The command cannot be carried out."""


class NotTieredError(TierError):
    """The topic is not in an object store."""


class NotInStoreError(TierError):
    """The store has no objects of the topic."""


class RepairRefusedError(TierError):
    """The manifests are sound, must not be replaced, or would leave offsets out."""


class CloneRefusedError(TierError):
    """A snapshot cannot be restored as requested."""


T = TypeVar("T")

TopicName = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=complete_topic)
]
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        "-s",
        metavar="URL",
        help="The brokers' barnabas.remote.storage.url: s3://BUCKET/PREFIX, gs://..., az://... or file:///FOLDER.",
    ),
]
StoreOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the store, as rsm.config.NAME of the brokers; may be repeated. "
        "Prefer the environment for credentials.",
    ),
]


class TopicInStore(NamedTuple):
    """The cluster, topic and partitions in the keys of a topic's objects."""

    cluster_id: str
    topic: str
    topic_id: Uuid
    partitions: tuple[int, ...]

    @property
    def folders(self) -> list[PartitionFolder]:
        from barnabas.tiering.objects import PartitionFolder

        return [
            PartitionFolder(self.cluster_id, self.topic, self.topic_id, index) for index in self.partitions
        ]


def with_topic_in_store(
    bootstrap: str,
    topic: str,
    url: str,
    options: list[str] | None,
    work: Callable[[TopicInStore, ObjectStore], Awaitable[T]],
) -> T:
    """Ask a broker for the topic, then run a coroutine function with it and the store."""

    async def checked(store: ObjectStore) -> T:
        await check_holds(store, found, url)
        return await work(found, store)

    found = with_client(bootstrap, lambda client: find_topic(client, topic))
    return with_store(url, options, checked)


def with_store(
    url: str, options: list[str] | None, work: Callable[[ObjectStore], Awaitable[T]], named: str = "--store"
) -> T:
    """Run a coroutine function with the store. `named`: how the command calls the URL."""
    import asyncio

    return asyncio.run(using_store(url, options, work, named))


MAX_LISTED = 1000  # snapshots of the cluster state come before the partitions


async def using_store(
    url: str, options: list[str] | None, work: Callable[[ObjectStore], Awaitable[T]], named: str = "--store"
) -> T:
    store = _open(url, parse_settings(options), named)
    try:
        return await work(store)
    finally:
        await store.close()


def _open(url: str, options: dict[str, str], named: str) -> ObjectStore:
    """Open the store with the command's option names in errors."""
    from barnabas.config.setting import ConfigError
    from barnabas.tiering.stores import URL, open_store

    try:
        return open_store(url, options)
    except ConfigError as error:
        raise ConfigError(str(error).replace(URL, named).replace("rsm.config.*", "--option")) from None


async def find_topic(client: Client, name: str) -> TopicInStore:
    topic = (await client.topics([name]))[name]
    return TopicInStore(client.metadata.cluster_id or "", name, topic.id, tuple(sorted(topic.partitions)))


async def check_holds(store: ObjectStore, found: TopicInStore, url: str) -> None:
    """NotInStoreError if the store has no objects of the topic, most likely a wrong bucket."""
    from barnabas.tiering.objects import topic_prefix

    async for _ in store.list(topic_prefix(found.cluster_id, found.topic, found.topic_id)):
        return
    raise NotInStoreError(
        f"{url} has nothing of topic {found.topic} of cluster {found.cluster_id}"
        f"{await _whose(store, found.cluster_id)}.\n"
        f"Is this the right bucket and prefix? `barnabas tier status {found.topic}` shows whether it is tiered."
    )


async def _whose(store: ObjectStore, cluster_id: str) -> str:
    """Hint with the cluster id found in the store, if it differs."""
    from barnabas.tiering.objects import parse_partition_prefix

    seen = 0
    async for info in store.list(""):
        seen += 1
        folder = parse_partition_prefix(info.key.rpartition("/")[0])
        if folder is not None and folder.cluster_id != cluster_id:
            return f"; it holds objects of cluster {folder.cluster_id}"
        if seen == MAX_LISTED:
            break
    return "" if seen else "; it is empty"
