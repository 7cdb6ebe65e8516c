"""List of topics: size, throughput and lag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.administration.rights import TopicKeeping
from barnabas.services.console.alarms.conditions import LAG_SECONDS
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError
from barnabas.services.console.needs import SHOWN
from barnabas.services.console.pages.cluster.dead_letters import is_named_so
from barnabas.services.console.pages.list_parts import (
    Freshness,
    Paging,
    freshness,
    known_first,
    page_of,
    sparks,
)
from barnabas.services.console.routes import NavigationEntry, Routes
from barnabas.services.console.sampling.series import topic_series
from barnabas.services.console.sampling.snapshot import SHARE, ClusterSnapshot, TopicSample

routes = Routes()


class TopicsQuery(msgspec.Struct):
    q: str = ""
    """Part of the name."""
    name: list[str] = []
    """Only these topics, for example favourites."""
    internal: bool = False
    """Include topics of the brokers, and all whose name begins with an underscore."""
    behind: bool = False
    """Only topics with a group whose lag is over the limit of the alarm."""
    sort: str = "name"
    """name, partitions, rate, size or lag."""
    page: int = 1


class TopicRow(msgspec.Struct):
    name: str
    internal: bool
    partitions: int
    offline: int
    under_replicated: int
    records_in: float | None
    """Records per second."""
    size: int | None
    """Bytes of all replicas."""
    lag: int | None
    """Lag in records of the group furthest behind, if the user may describe that group."""
    lag_seconds: float | None
    group: str
    """Name of that group."""
    dead: bool
    """True if the name is that of a topic of dead letters."""
    kept_seconds: float | None
    """Retention time; -1: forever; None: unknown."""
    tags: list[str]
    """compacted, tiered, share group."""
    spark: str
    """Records in over two hours, as the path of a 90 by 22 SVG."""


class TopicsPage(msgspec.Struct):
    figures: Freshness
    q: str
    names: list[str]
    internal: bool
    sort: str
    paging: Paging
    topics: list[TopicRow]
    behind: bool
    total: int
    """Topics that the user may describe, without internal ones."""
    hidden: int
    """Internal topics that the user may describe."""
    late: int
    """Topics with a group whose lag is over the limit of the alarm."""
    lag_limit: int
    """Seconds of lag at which an alarm fires."""


def _lag_key(snapshot: ClusterSnapshot) -> Callable[[TopicSample], Any]:
    def key(topic: TopicSample) -> Any:
        worst = snapshot.worst.get(topic.name)
        if worst is None:
            return known_first(None)
        return (*known_first(worst.seconds or 0.0), -worst.lag)

    return key


_SORTS: dict[str, Callable[[ClusterSnapshot], Callable[[TopicSample], Any]]] = {
    "name": lambda snapshot: lambda topic: topic.name,
    "partitions": lambda snapshot: lambda topic: -len(topic.layout),
    "rate": lambda snapshot: lambda topic: known_first(topic.rate_in),
    "size": lambda snapshot: lambda topic: known_first(topic.size if topic.size >= 0 else None),
    "lag": _lag_key,
}


@routes.page(
    "/topics",
    needs=SHOWN,
    template="topics/list.html",
    entry=NavigationEntry("Topics", "t", 10, "topics", "Data"),
)
async def list_topics(context: RequestScope, query: TopicsQuery) -> TopicsPage:
    """Topics that the user may describe, fifty per page."""
    if query.sort not in _SORTS:
        raise BadInputError(f"Topics are sorted by {', '.join(_SORTS)}", "sort")
    snapshot = context.cluster.sampler.snapshot
    allowed = await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, snapshot.topics)
    every = [topic for topic in snapshot.topics.values() if topic.name in allowed]
    found = [topic for topic in every if _fits(snapshot, topic, query)]
    found.sort(key=_SORTS[query.sort](snapshot))
    shown, paging = page_of(found, query.page)
    own = [topic for topic in every if not topic.is_internal]
    return TopicsPage(
        *(freshness(snapshot), query.q, query.name, query.internal, query.sort, paging),
        topics=await _rows(context, snapshot, shown),
        behind=query.behind,
        total=len(own),
        hidden=len(every) - len(own),
        late=sum(_is_late(snapshot, topic) for topic in own),
        lag_limit=LAG_SECONDS,
    )


def _fits(snapshot: ClusterSnapshot, topic: TopicSample, query: TopicsQuery) -> bool:
    return (
        (query.internal or not topic.is_internal)
        and query.q.strip().lower() in topic.name.lower()
        and (not query.name or topic.name in query.name)
        and (not query.behind or _is_late(snapshot, topic))
    )


def _is_late(snapshot: ClusterSnapshot, topic: TopicSample) -> bool:
    worst = snapshot.worst.get(topic.name)
    return worst is not None and (worst.seconds or 0) >= LAG_SECONDS


async def _rows(
    context: RequestScope, snapshot: ClusterSnapshot, topics: list[TopicSample]
) -> list[TopicRow]:
    worst = {topic.name: snapshot.worst[topic.name] for topic in topics if topic.name in snapshot.worst}
    groups = {lag.group for lag in worst.values()}
    seen = await context.allowed(Operation.DESCRIBE, ResourceType.GROUP, groups)
    series = [topic_series(topic.name, "in") for topic in topics]
    described = await context.allowed(
        Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, [topic.name for topic in topics]
    )
    keepings = await context.cluster.keepings.among(context.client, described)
    shared = {
        read.topic for group in snapshot.groups.values() if group.type == SHARE for read in group.topics
    }
    paths = await sparks(context.cluster.history, series, snapshot.taken_ms)
    rows = []
    for topic, name in zip(topics, series, strict=True):
        lag = worst.get(topic.name)
        lag = lag if lag is not None and lag.group in seen else None
        rows.append(
            TopicRow(
                *(topic.name, topic.is_internal, len(topic.layout), topic.offline, topic.under_replicated),
                *(topic.rate_in, topic.size if topic.size >= 0 else None),
                lag=lag.lag if lag else None,
                lag_seconds=lag.seconds if lag else None,
                group=lag.group if lag else "",
                dead=is_named_so(topic.name),
                kept_seconds=keeping.seconds if (keeping := keepings.get(topic.name)) else None,
                tags=_tags(keeping, is_shared=topic.name in shared),
                spark=paths[name],
            )
        )
    return rows


def _tags(keeping: TopicKeeping | None, *, is_shared: bool) -> list[str]:
    tags = ["compacted"] if keeping is not None and keeping.is_compacted else []
    tags += ["tiered"] if keeping is not None and keeping.is_tiered else []
    return [*tags, *(["share group"] if is_shared else [])]
