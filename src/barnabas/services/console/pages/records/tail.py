"""Live tail of a topic: at most 50 rows a second; skipped records are counted."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from barnabas.client.errors import ClientError
from barnabas.common.errors import KafkaError
from barnabas.security.authz import Operation
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import ConsoleError
from barnabas.services.console.needs import topic
from barnabas.services.console.pages.records.asking import Asked, search_of
from barnabas.services.console.pages.records.listing import failed
from barnabas.services.console.routes import Event, Routes
from barnabas.services.console.scanning.model import Decode, Skipped

routes = Routes()


class TailQuery(Asked, kw_only=True):
    at: str = ""
    """Continuation token of a paused tail."""


class TailPage(msgspec.Struct):
    topic: str
    partitions: int
    decodes: list[str]


@routes.page("/topics/{topic}/tail", needs=topic(Operation.READ), template="records/tail.html")
async def show_tail(context: RequestScope, query: TailQuery) -> TailPage:
    """Live tail of a topic; `tail/stream` sends the records."""
    await context.cluster.scanner.warm()
    found = (await context.client.topics([query.topic]))[query.topic]
    return TailPage(query.topic, len(found.partitions), [each.value for each in Decode])


@routes.stream("/topics/{topic}/tail/stream", needs=topic(Operation.READ))
async def tail_records(context: RequestScope, query: TailQuery) -> AsyncGenerator[Event, None]:
    """`hits` with the records of the last half second, `skipped` with the number of records left out."""
    try:
        search = await search_of(context, query, 100, query.at)
        async with aclosing(context.cluster.scanner.tail(context.client, search)) as events:
            async for event in events:
                yield Event("skipped" if isinstance(event, Skipped) else "hits", event)
    except (ConsoleError, KafkaError, ClientError, OSError) as error:
        yield failed(error)
