"""The frame of every page: clusters, sidebar with counts, age of the figures. It is not part of the JSON of a page."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from itertools import groupby

import msgspec

from barnabas.security.authz import CLUSTER_NAME, Operation, ResourceType
from barnabas.services.console.alarms.conditions import Severity
from barnabas.services.console.clusters import Cluster
from barnabas.services.console.context import RequestScope
from barnabas.services.console.pages.alarms import raised_alarms
from barnabas.services.console.pages.list_parts import Freshness, freshness
from barnabas.services.console.routes import ConsoleRoute, NavigationEntry
from barnabas.services.console.sampling.snapshot import ClusterSnapshot

STALE_SECONDS = 30.0
"""Three intervals of the sampler."""
LAST_CLUSTER = "cluster"
"""Cookie with the cluster that was shown last, for pages of no cluster; only with several clusters."""


class MenuItem(msgspec.Struct):
    word: str
    url: str
    icon: str
    letter: str
    is_current: bool
    count: int | None = None
    """None if unknown, or if the user may not describe the cluster."""
    alarms: int = 0


class MenuSection(msgspec.Struct):
    title: str
    items: list[MenuItem]


class ClusterChoice(msgspec.Struct):
    name: str
    url: str
    health: str
    """ok, warn or bad: the class of a dot."""
    health_word: str
    brokers: int | None
    is_current: bool


class PageFrame(msgspec.Struct):
    base: str
    """Path of the cluster, also on pages of no cluster."""
    cluster: ClusterChoice
    clusters: list[ClusterChoice]
    sections: list[MenuSection]
    foot: list[MenuItem]
    figures: Freshness
    is_stale: bool
    alarms: int
    initials: str

    def item(self, word: str) -> MenuItem | None:
        """Entry of the sidebar; None if the user may not see that page."""
        every = (item for section in self.sections for item in section.items)
        return next((item for item in every if item.word == word), None)


async def frame_of(context: RequestScope, path: str) -> PageFrame:
    """PageFrame around the page at `path`. `context` has a cluster: that of the page, or the one shown last."""
    sees_all = await context.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    raised = await raised_alarms(context)
    snapshot = context.cluster.sampler.snapshot
    counts = _counts(context.cluster) if sees_all else {}
    items = [
        (entry, _item(context, entry, route, path, counts))
        for entry, route in context.table.entries
        if await _is_allowed(context, route)
    ]
    for _, item in items:
        item.alarms = len(raised) if item.icon == "alarms" else 0
    worst = min((each.alarm.severity.rank for each in raised), default=None)
    current = _choice(context, context.cluster, _health(snapshot, worst), sees_all)
    return PageFrame(
        base=context.url("/"),
        cluster=current,
        clusters=[
            current if name == context.cluster.name else _choice(context, each, _answers(each), False)
            for name, each in context.clusters.items()
        ],
        sections=_sections([each for each in items if each[1].icon not in ("settings", "api")]),
        foot=[item for _, item in items if item.icon in ("settings", "api")],
        figures=freshness(snapshot),
        is_stale=bool(snapshot.error) or snapshot.is_empty or snapshot.age > STALE_SECONDS,
        alarms=len(raised),
        initials=initials(context.user.name),
    )


async def _is_allowed(context: RequestScope, route: ConsoleRoute) -> bool:
    return all([await context.user.allows(need.action({})) for need in route.right.all_of])


def _item(
    context: RequestScope,
    entry: NavigationEntry,
    route: ConsoleRoute,
    path: str,
    counts: dict[str, Callable[[], int | None]],
) -> MenuItem:
    url = route.path if route.outside else context.url(route.cluster_path)
    above = url.rsplit("/", 1)[0] if "/access/" in url and entry.icon == "access" else url
    is_current = path == url or (route.cluster_path != "/" and path.startswith(above + "/"))
    if entry.icon == "access" and path.endswith("/access/quotas"):
        is_current = False
    count = counts[entry.icon]() if entry.icon in counts else None
    return MenuItem(entry.word, url, entry.icon, entry.letter, is_current, count)


def _counts(cluster: Cluster) -> dict[str, Callable[[], int | None]]:
    """Counts by icon, from the last sample and the last reports: no page waits for a number of its sidebar."""
    snapshot, statuses = cluster.sampler.snapshot, cluster.statuses
    if snapshot.is_empty:
        return {}
    return {
        "topics": lambda: sum(not topic.is_internal for topic in snapshot.topics.values()),
        "groups": lambda: len(snapshot.groups),
        "brokers": lambda: len(snapshot.brokers),
        "schemas": lambda: cluster.registry.subjects,
        "pipelines": lambda: len(statuses.current("pipeline")),
        "connectors": lambda: len(statuses.current("connector")),
        "agents": lambda: len(statuses.current("agent")),
    }


def _sections(items: list[tuple[NavigationEntry, MenuItem]]) -> list[MenuSection]:
    return [
        MenuSection(title, [item for _, item in found])
        for title, found in groupby(items, key=lambda each: each[0].section)
    ]


def _health(snapshot: ClusterSnapshot, worst: int | None) -> tuple[str, str]:
    if worst == Severity.CRITICAL.rank:
        return "bad", "critical alarm"
    if worst is not None or snapshot.error:
        return "warn", "does not answer" if snapshot.error else "alarm"
    return ("ok", "healthy") if not snapshot.is_empty else ("", "not sampled yet")


def _answers(cluster: Cluster) -> tuple[str, str]:
    """Of another cluster: its alarms are for those who may see them there."""
    snapshot = cluster.sampler.snapshot
    if snapshot.error:
        return "warn", "does not answer"
    return ("", "not sampled yet") if snapshot.is_empty else ("ok", "answers")


def _choice(
    context: RequestScope, cluster: Cluster, health: tuple[str, str], shows_brokers: bool
) -> ClusterChoice:
    url = f"/c/{urllib.parse.quote(cluster.name, safe='')}"
    brokers = len(cluster.sampler.snapshot.brokers) or None if shows_brokers else None
    return ClusterChoice(cluster.name, url, *health, brokers, cluster.name == context.cluster.name)


def initials(name: str) -> str:
    """Two letters for a user name: `anna.berg` and `Anna Berg` are AB, `franz` is FR."""
    words = "".join(letter if letter.isalnum() else " " for letter in name).split()
    letters = words[0][0] + words[1][0] if len(words) > 1 else "".join(words)[:2]
    return letters.upper() or "?"
