"""Consumer groups of a topic and their lag."""

from __future__ import annotations

import msgspec

from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.needs import topic
from barnabas.services.console.pages.topic.summary import TopicQuery, find_topic
from barnabas.services.console.routes import Routes
from barnabas.services.console.sampling.snapshot import ClusterSnapshot

routes = Routes()


class Reader(msgspec.Struct):
    group: str
    type: str
    state: str
    partitions: int
    """Partitions with a committed offset."""
    lag: int
    lag_seconds: float | None


class ReadersPage(msgspec.Struct):
    topic: str
    readers: list[Reader]
    age: float
    """Age of the figures in seconds."""
    error: str


@routes.page("/topics/{topic}/groups", needs=topic(Operation.DESCRIBE), template="topic/groups.html")
async def show_readers(context: RequestScope, query: TopicQuery) -> ReadersPage:
    """Groups with committed offsets in a topic, furthest behind first, without those that the user may not describe."""
    await find_topic(context, query.topic)
    snapshot = context.cluster.sampler.snapshot
    found = readers_of(snapshot, query.topic)
    names = [reader.group for reader in found]
    allowed = await context.allowed(Operation.DESCRIBE, ResourceType.GROUP, names)
    readers = [reader for reader in found if reader.group in allowed]
    return ReadersPage(query.topic, readers, snapshot.age, snapshot.error)


def readers_of(snapshot: ClusterSnapshot, name: str) -> list[Reader]:
    found = [
        Reader(group.name, group.type, group.state, len(read.indexes), read.lag, read.lag_seconds)
        for group in snapshot.groups.values()
        for read in group.topics
        if read.topic == name
    ]
    return sorted(found, key=lambda reader: (-(reader.lag_seconds or 0), -reader.lag, reader.group))
