"""Bulk actions on topics: delete, purge, change settings. All topics are checked before the first change."""

from __future__ import annotations

from typing import Literal

import msgspec

from barnabas.client import ClientError, admin
from barnabas.common.errors import KafkaError
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.administration.configuration import (
    apply_changes,
    difference,
    parse_changes,
    read_settings,
)
from barnabas.services.console.administration.partitions import read_partitions
from barnabas.services.console.administration.rights import confirmed
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError, ConsoleError
from barnabas.services.console.needs import CHECKED
from barnabas.services.console.pages.topic.changing import purge
from barnabas.services.console.routes import Routes

routes = Routes()

MAX_TOPICS = 500
NEEDED = {"delete": Operation.DELETE, "purge": Operation.DELETE, "set": Operation.ALTER_CONFIGS}

What = Literal["delete", "purge", "set"]


class ManyQuery(msgspec.Struct):
    topics: list[str] = []
    do: What = "delete"
    changes: str = ""
    """For `set`: name=value per line; a name alone resets to the default."""
    q: str = ""
    """Without topics: part of the names to choose from."""


class ManyForm(msgspec.Struct):
    topics: list[str]
    do: What
    confirm: str
    """Action and number of topics, typed to confirm: `delete 3 topics`."""
    changes: str = ""


class ManyRow(msgspec.Struct):
    topic: str
    partitions: int
    records: int
    bytes: int | None
    change: str
    """Effect of `set` on the topic."""


class ManyPage(msgspec.Struct):
    do: str
    changes: str
    rows: list[ManyRow]
    confirm: str
    """Text to type for confirmation."""
    q: str
    choices: list[str]
    """Topics to choose from while none is selected."""
    more: int
    """Number of topics not shown."""


class ManyDone(msgspec.Struct):
    message: str
    see: str
    done: list[str]
    failed: dict[str, str]
    """Reason of failure by topic."""


@routes.page("/many-topics", needs=CHECKED, template="topic/many.html")
async def show_many(context: RequestScope, query: ManyQuery) -> ManyPage:
    """Preview of a bulk action on the selected topics; without a selection, the topics to choose from."""
    names = _checked(query.topics)
    if not names:
        return await _choices(context, query)
    for name in names:
        await context.demand(Operation.DESCRIBE, ResourceType.TOPIC, name)
    found = await context.client.topics(names)
    rows = []
    for name, topic in found.items():
        parts = await read_partitions(context.client, topic, with_producers=False)
        sizes = [part.total_bytes for part in parts if part.total_bytes is not None]
        rows.append(
            ManyRow(
                name,
                len(parts),
                sum(part.records or 0 for part in parts),
                sum(sizes) if sizes else None,
                await _change(context, name, query),
            )
        )
    return ManyPage(query.do, query.changes, rows, confirmation(query.do, len(rows)), query.q, [], 0)


@routes.action("/many-topics", needs=CHECKED)
async def change_many(context: RequestScope, form: ManyForm) -> ManyDone:
    """Delete, purge or configure many topics. All rights are checked before the first change; failures are reported."""
    names = _checked(form.topics)
    if not names:
        raise BadInputError("No topic is picked out", "topics")
    confirmed(form.confirm, confirmation(form.do, len(names)))
    for name in names:
        await context.demand(NEEDED[form.do], ResourceType.TOPIC, name)
    await context.client.topics(names)
    done, failed = list[str](), dict[str, str]()
    for name in names:
        try:
            await _do(context, name, form)
            done.append(name)
        except (ClientError, KafkaError, ConsoleError) as error:
            failed[name] = str(error)
    return ManyDone(_told(form.do, done, failed), "/topics", done, failed)


async def _choices(context: RequestScope, query: ManyQuery) -> ManyPage:
    topics = context.cluster.sampler.snapshot.topics
    part = query.q.strip().lower()
    fitting = [name for name, topic in topics.items() if part in name.lower() and not topic.is_internal]
    allowed = await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, fitting)
    found = sorted(allowed)
    shown = found[:MAX_TOPICS]
    return ManyPage(query.do, query.changes, [], "", query.q, shown, len(found) - len(shown))


def confirmation(do: str, count: int) -> str:
    return f"{do} {count} topic{'' if count == 1 else 's'}"


def _checked(names: list[str]) -> list[str]:
    wanted = sorted(set(names))
    if len(wanted) > MAX_TOPICS:
        raise BadInputError(f"Pick out at most {MAX_TOPICS} topics at once", "topics")
    return wanted


async def _change(context: RequestScope, name: str, query: ManyQuery) -> str:
    if query.do != "set" or not query.changes.strip():
        return ""
    await context.demand(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name)
    settings = await read_settings(context.client, admin.TOPIC, name)
    found = difference(settings, parse_changes(query.changes))
    return "; ".join(f"{each.name}: {each.before} → {each.after}" for each in found) or "nothing"


async def _do(context: RequestScope, name: str, form: ManyForm) -> None:
    if form.do == "delete":
        await admin.delete_topics(context.client, [name])
    elif form.do == "purge":
        await purge(context, name, list(context.client.metadata.topics[name].partitions), None)
    else:
        await apply_changes(context.client, admin.TOPIC, name, form.changes, "")


def _told(do: str, done: list[str], failed: dict[str, str]) -> str:
    word = {"delete": "deleted", "purge": "emptied", "set": "changed"}[do]
    text = f"{len(done)} topics {word}."
    return text + "".join(f" {name}: {reason}." for name, reason in list(failed.items())[:3])
