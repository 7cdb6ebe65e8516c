"""`/` on any page: go to a topic, a group or a page by a part of its name."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from barnabas.services.console.context import Context
from barnabas.services.console.needs import SHOWN
from barnabas.services.console.rendering import quote
from barnabas.services.console.routes import Routes
from barnabas.security.authz.authorizer import Operation, ResourceType

routes = Routes()

MOST_PLACES = 20


class PlacesQuery(msgspec.Struct):
    q: str = ""


class Place(msgspec.Struct):
    kind: str
    name: str
    url: str


class Places(msgspec.Struct):
    q: str
    found: list[Place]


@routes.page("/goto", needs=SHOWN, template="places.html")
async def find_places(context: Context, query: PlacesQuery) -> Places:
    """Pages, topics and groups whose name contains `q`, the shortest first."""
    pages = [
        Place("page", entry.word, route.path if route.outside else context.url(route.path))
        for entry, route in context.table.entries
        if _fits(query.q, entry.word)
    ]
    snapshot = context.cluster.sampler.snapshot
    topics = await _places(context, query.q, "topic", ResourceType.TOPIC, snapshot.topics)
    groups = await _places(context, query.q, "group", ResourceType.GROUP, snapshot.groups)
    found = sorted(topics + groups, key=lambda place: len(place.name))
    return Places(query.q, (pages + found)[:MOST_PLACES])


async def _places(
    context: Context, part: str, kind: str, resource: ResourceType, names: Iterable[str]
) -> list[Place]:
    fitting = [name for name in names if _fits(part, name)]
    allowed = await context.allowed(Operation.DESCRIBE, resource, fitting)
    shown = sorted(allowed, key=lambda name: (len(name), name))[:MOST_PLACES]
    return [Place(kind, name, context.url(f"/{kind}s/{quote(name)}")) for name in shown]


def _fits(part: str, name: str) -> bool:
    return part.lower() in name.lower()
