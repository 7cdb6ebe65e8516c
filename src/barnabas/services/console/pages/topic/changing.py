"""Topics are made, grown, emptied and deleted."""

from __future__ import annotations

from typing import Annotated

import msgspec

from barnabas.client import admin
from barnabas.client.offsets import beginning_offsets, end_offsets
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.topics import CreatableTopicResult
from barnabas.security.authz import CLUSTER_NAME, Operation, ResourceType
from barnabas.services.console.administration.configuration import parse_changes
from barnabas.services.console.administration.rights import confirmed
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError, StaleError
from barnabas.services.console.needs import CHECKED, topic
from barnabas.services.console.pages.topic.summary import find_topic
from barnabas.services.console.rendering import quote
from barnabas.services.console.routes import ActionResult, Routes

routes = Routes()

AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=(1 << 31) - 1)]
Replicas = Annotated[int, msgspec.Meta(ge=1, le=(1 << 15) - 1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class CreateQuery(msgspec.Struct):
    topic: str = ""
    partitions: AtLeastOne | None = None
    """None: as many as the brokers' num.partitions."""
    replication_factor: Replicas | None = None
    settings: str = ""
    """name=value a line."""


class CreatePage(msgspec.Struct):
    topic: str
    partitions: int | None
    replication_factor: int | None
    settings: str
    checked: bool
    """The controller would create it like this."""
    may_create: bool


class TopicCreatedResult(msgspec.Struct):
    message: str
    see: str
    topic: str
    partitions: int
    replication_factor: int


class DeleteForm(msgspec.Struct):
    topic: str
    confirm: str
    """The topic's name, typed out."""


class GrowForm(msgspec.Struct):
    topic: str
    partitions: AtLeastOne
    """How many there shall be."""
    seen: int | None = None
    """How many there were when the form was made; if that has changed, nothing is done."""


class PurgeForm(msgspec.Struct):
    topic: str
    confirm: str
    partition: NotNegative | None = None
    """None: all of them."""
    before: NotNegative | None = None
    """The first offset that stays; None: no record stays."""


class Purged(msgspec.Struct):
    message: str
    see: str
    starts: dict[int, int]
    """Where each partition begins now."""


@routes.page("/create-topic", needs=CHECKED, template="topic/create.html")
async def show_create(context: RequestScope, query: CreateQuery) -> CreatePage:
    """The form for a new topic; with a name, whether the controller would create it."""
    if query.topic:
        await _demand_create(context, query.topic)
        await _create(context, query, validate_only=True)
    return CreatePage(
        query.topic,
        query.partitions,
        query.replication_factor,
        query.settings,
        bool(query.topic),
        not context.settings.read_only,
    )


@routes.action("/create-topic", needs=CHECKED)
async def create_topic(context: RequestScope, form: CreateQuery) -> TopicCreatedResult:
    """Create a topic. It needs CREATE on the topic or on the cluster."""
    if not form.topic:
        raise BadInputError("A topic needs a name", "topic")
    await _demand_create(context, form.topic)
    result = await _create(context, form, validate_only=False)
    return TopicCreatedResult(
        f"Topic {form.topic} is created.",
        f"/topics/{quote(form.topic)}",
        form.topic,
        result.num_partitions,
        result.replication_factor,
    )


@routes.action("/topics/{topic}/delete", needs=topic(Operation.DELETE))
async def delete_topic(context: RequestScope, form: DeleteForm) -> ActionResult:
    """Delete a topic with all its records, for good. `confirm` is the topic's name, typed out."""
    confirmed(form.confirm, form.topic)
    await admin.delete_topics(context.client, [form.topic])
    return ActionResult(f"Topic {form.topic} is deleted.", "/topics")


@routes.action("/topics/{topic}/grow", needs=topic(Operation.ALTER))
async def grow_topic(context: RequestScope, form: GrowForm) -> ActionResult:
    """Give a topic more partitions. Records with a key may then go to another partition than before."""
    now = len((await find_topic(context, form.topic)).partitions)
    if form.seen is not None and form.seen != now:
        raise StaleError(f"{form.topic} had {form.seen} partitions and has {now} now. Look at it again")
    if form.partitions <= now:
        raise BadInputError(f"{form.topic} has {now} partitions already, and can only get more", "partitions")
    await admin.create_partitions(context.client, form.topic, form.partitions)
    return ActionResult(f"{form.topic} has {form.partitions} partitions now.", f"/topics/{quote(form.topic)}")


@routes.action("/topics/{topic}/purge", needs=topic(Operation.DELETE))
async def purge_topic(context: RequestScope, form: PurgeForm) -> Purged:
    """Remove records of a topic, but not the topic; offsets go on where they were. `confirm` is the topic's name."""
    confirmed(form.confirm, form.topic)
    partitions = (await find_topic(context, form.topic)).partitions
    if form.partition is not None and form.partition not in partitions:
        raise BadInputError(f"{form.topic} has partitions 0 to {len(partitions) - 1}", "partition")
    wanted = list(partitions) if form.partition is None else [form.partition]
    starts = await purge(context, form.topic, wanted, form.before)
    return Purged(f"Removed records of {form.topic}.", f"/topics/{quote(form.topic)}/partitions", starts)


async def purge(
    context: RequestScope, name: str, partitions: list[int], before: int | None
) -> dict[int, int]:
    """All are checked before the first is changed."""
    tps = [TopicPartition(name, index) for index in partitions]
    if before is not None:
        first = await beginning_offsets(context.client, tps)
        last = await end_offsets(context.client, tps)
        for tp in tps:
            if not first[tp] <= before <= last[tp]:
                raise BadInputError(f"{tp} has offsets {first[tp]} to {last[tp]}", "before")
    offset = admin.ALL_RECORDS if before is None else before
    return {tp.partition: await admin.delete_records(context.client, tp, offset) for tp in tps}


async def _demand_create(context: RequestScope, name: str) -> None:
    if not await context.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        await context.demand(Operation.CREATE, ResourceType.TOPIC, name)


async def _create(context: RequestScope, wanted: CreateQuery, *, validate_only: bool) -> CreatableTopicResult:
    settings = parse_changes(wanted.settings) if wanted.settings.strip() else {}
    return await admin.create_topic(
        context.client,
        wanted.topic,
        partitions=wanted.partitions or admin.BROKER_DEFAULT,
        replication_factor=wanted.replication_factor or admin.BROKER_DEFAULT,
        configs={name: value or "" for name, value in settings.items()},
        validate_only=validate_only,
    )
