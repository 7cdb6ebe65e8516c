"""Creating, growing, purging and deleting topics."""

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
    """None: the brokers' num.partitions."""
    replication_factor: Replicas | None = None
    settings: str = ""
    """name=value per line."""


class CreatePage(msgspec.Struct):
    topic: str
    partitions: int | None
    replication_factor: int | None
    settings: str
    checked: bool
    """True if the controller accepted the topic in a dry run."""
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
    """Topic name, typed to confirm."""


class GrowForm(msgspec.Struct):
    topic: str
    partitions: AtLeastOne
    """New number of partitions."""
    seen: int | None = None
    """Number of partitions shown by the form; nothing is done if it has changed."""


class PurgeForm(msgspec.Struct):
    topic: str
    confirm: str
    partition: NotNegative | None = None
    """None: all partitions."""
    before: NotNegative | None = None
    """First offset to keep; None: keep no records."""


class Purged(msgspec.Struct):
    message: str
    see: str
    starts: dict[int, int]
    """New log start offset by partition."""


@routes.page("/create-topic", needs=CHECKED, template="topic/create.html")
async def show_create(context: RequestScope, query: CreateQuery) -> CreatePage:
    """Form for a new topic; with a name, also a dry run on the controller."""
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
    """Create a topic. Needs CREATE on the topic or on the cluster."""
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
    """Delete a topic with all its records, permanently. `confirm` is the topic's name."""
    confirmed(form.confirm, form.topic)
    await admin.delete_topics(context.client, [form.topic])
    return ActionResult(f"Topic {form.topic} is deleted.", "/topics")


@routes.action("/topics/{topic}/grow", needs=topic(Operation.ALTER))
async def grow_topic(context: RequestScope, form: GrowForm) -> ActionResult:
    """Add partitions to a topic. Records with a key may then go to a different partition than before."""
    now = len((await find_topic(context, form.topic)).partitions)
    if form.seen is not None and form.seen != now:
        raise StaleError(f"{form.topic} had {form.seen} partitions and has {now} now. Reload the page")
    if form.partitions <= now:
        raise BadInputError(
            f"{form.topic} already has {now} partitions; partitions can only be added", "partitions"
        )
    await admin.create_partitions(context.client, form.topic, form.partitions)
    return ActionResult(f"{form.topic} has {form.partitions} partitions now.", f"/topics/{quote(form.topic)}")


@routes.action("/topics/{topic}/purge", needs=topic(Operation.DELETE))
async def purge_topic(context: RequestScope, form: PurgeForm) -> Purged:
    """Delete records of a topic but keep the topic and its end offsets. `confirm` is the topic's name."""
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
    """Delete records up to `before`; its bounds are checked in all partitions before the first deletion."""
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
