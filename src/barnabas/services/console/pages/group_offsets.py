"""Offset editor: preview of a change, and the change itself if the offsets are still the same."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from barnabas.client import Client
from barnabas.common.types import TopicPartition, Uuid
from barnabas.security.authz import Operation, ResourceType
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError, ResourceNotFoundError, StaleError
from barnabas.services.console.groups import offset_changes as offset_plan
from barnabas.services.console.groups.members import describe_members
from barnabas.services.console.groups.offset_changes import (
    OffsetChange,
    PlannedChange,
    differences,
    log_bounds,
    move_group,
    offsets_at,
    offsets_now,
)
from barnabas.services.console.needs import group
from barnabas.services.console.rendering import quote
from barnabas.services.console.routes import ActionResult, Routes
from barnabas.services.console.sampling.snapshot import GroupSample

routes = Routes()

MAX_CHANGES = 5000
SHOWN_DIFFERENCES = 5


class OffsetsQuery(msgspec.Struct):
    group: str
    to: str = ""
    """earliest, latest, time, number, shift or copy."""
    value: str = ""
    """Timestamp, offset, number of records to shift by, or group to copy from."""
    topic: list[str] = []
    """Empty: all topics with committed offsets."""
    partition: list[int] = []
    """Empty: all partitions."""


class OffsetsPage(msgspec.Struct):
    group: str
    type: str
    to: str
    value: str
    topics: list[str]
    """Selected topics."""
    all_topics: list[str]
    """Topics with committed offsets."""
    partitions: list[int]
    ways: list[str]
    changes: list[PlannedChange]
    problem: str
    """Reason that the change is impossible; otherwise empty."""
    plan: str
    """Body for `POST`: the changes as JSON."""


@routes.page("/groups/{group}/offsets", needs=group(Operation.DESCRIBE), template="groups/offsets.html")
async def plan_offsets(context: RequestScope, query: OffsetsQuery) -> OffsetsPage:
    """Preview new offsets of a group: before and after, by partition. Nothing is changed. Topics that the user may not
    describe are left out."""
    sample = _find(context, query.group)
    sample = sample.within(await _described(context, [each.topic for each in sample.topics]))
    if query.to and query.to not in offset_plan.WAYS:
        raise BadInputError(f"Offsets are set to {', '.join(offset_plan.WAYS)}", "to")
    planned = await _plan(context, sample, query) if query.to else []
    problem = await _problem(context.client, sample, planned) if query.to else ""
    changes = [OffsetChange(*each.tp, each.before, each.after) for each in planned]
    return OffsetsPage(
        *(
            sample.name,
            sample.type,
            query.to,
            query.value,
            query.topic,
            [each.topic for each in sample.topics],
        ),
        *(query.partition, list(offset_plan.WAYS), planned, problem),
        plan=msgspec.json.encode(changes).decode(),
    )


class OffsetsForm(msgspec.Struct):
    group: str
    plan: str = ""
    """Changes as JSON, from the page."""
    changes: list[OffsetChange] = []
    """Changes, for API clients."""


@routes.action("/groups/{group}/offsets", needs=group(Operation.READ))
async def set_offsets(context: RequestScope, form: OffsetsForm) -> ActionResult:
    """Set the offsets of a group without members, if they still match the plan. Also needs READ on the topics."""
    sample = _find(context, form.group)
    changes = form.changes or _read_plan(form.plan)
    if not changes:
        raise BadInputError("There is nothing to change", "changes")
    for topic in sorted({change.topic for change in changes}):
        await context.demand(Operation.READ, ResourceType.TOPIC, topic)
    now = await offsets_now(context.client, sample.name, sample.type, _topic_names(context))
    moved = differences(changes, now)
    if moved:
        more = f" and {len(moved) - SHOWN_DIFFERENCES} more" if len(moved) > SHOWN_DIFFERENCES else ""
        text = (
            f"{sample.name} has new offsets: {'; '.join(moved[:SHOWN_DIFFERENCES])}{more}. Check the new plan"
        )
        raise StaleError(text, "changes")
    await _check_bounds(context.client, changes)
    await move_group(context.client, sample.name, sample.type, {each.tp: each.after for each in changes})
    return ActionResult(f"{sample.name} resumes at the new offsets", f"/groups/{quote(sample.name)}")


def _find(context: RequestScope, name: str) -> GroupSample:
    sample = context.cluster.sampler.snapshot.groups.get(name)
    if sample is None:
        raise ResourceNotFoundError(f"Group {name!r} does not exist, or was created in the last few seconds")
    return sample


def _topic_names(context: RequestScope) -> dict[Uuid, str]:
    return {topic.id: name for name, topic in context.cluster.sampler.snapshot.topics.items()}


async def _plan(context: RequestScope, sample: GroupSample, query: OffsetsQuery) -> list[PlannedChange]:
    before = await offsets_now(context.client, sample.name, sample.type, _topic_names(context))
    source = await _source(context, query)
    partitions = await _partitions(context, query, {**before, **source})
    if len(partitions) > MAX_CHANGES:
        raise BadInputError(f"That would be {len(partitions)} partitions; choose a topic", "topic")
    starts, ends = await log_bounds(context.client, partitions)
    if query.to == offset_plan.TIME:
        wanted = await offsets_at(context.client, partitions, offset_plan.parse_time(query.value), ends)
    elif query.to == offset_plan.NUMBER:
        wanted = dict.fromkeys(partitions, offset_plan.parse_number(query.value, query.to))
    elif query.to == offset_plan.SHIFT:
        by = offset_plan.parse_number(query.value, query.to)
        wanted = {tp: offset + by for tp, offset in before.items()}
    else:
        wanted = {offset_plan.EARLIEST: starts, offset_plan.LATEST: ends}.get(query.to, source)
    return offset_plan.plan(wanted, before, starts, ends, partitions)


async def _source(context: RequestScope, query: OffsetsQuery) -> dict[TopicPartition, int]:
    """Offsets of the group to copy from, if any."""
    if query.to != offset_plan.COPY:
        return {}
    if not query.value:
        raise BadInputError("Enter the group to copy from", "value")
    await context.demand(Operation.DESCRIBE, ResourceType.GROUP, query.value)
    other = _find(context, query.value)
    return await offsets_now(context.client, other.name, other.type, _topic_names(context))


async def _partitions(
    context: RequestScope, query: OffsetsQuery, known: dict[TopicPartition, int]
) -> list[TopicPartition]:
    """Selected partitions; the group need not have offsets in a topic selected by name."""
    for name in query.topic:
        await context.demand(Operation.DESCRIBE, ResourceType.TOPIC, name)
    partitions = await context.client.partitions(query.topic) if query.topic else sorted(known)
    described = await _described(context, {tp.topic for tp in partitions})
    return [
        tp
        for tp in partitions
        if tp.topic in described and (not query.partition or tp.partition in query.partition)
    ]


async def _described(context: RequestScope, topics: Iterable[str]) -> set[str]:
    return await context.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topics)


async def _problem(client: Client, sample: GroupSample, planned: list[PlannedChange]) -> str:
    if not planned:
        return "No partition to change: the group has no offsets there"
    outside = [each for each in planned if each.problem]
    if outside:
        return f"{len(outside)} of {len(planned)} offsets are outside of the log; see the table"
    members = await describe_members(client, sample.name, sample.type)
    if members.error:
        return members.error
    if members.members:
        count = len(members.members)
        noun = "member" if count == 1 else "members"
        return f"The group has {count} {noun}, and only they may commit: stop its consumers first"
    return ""


async def _check_bounds(client: Client, changes: list[OffsetChange]) -> None:
    starts, ends = await log_bounds(client, [change.tp for change in changes])
    for change in changes:
        if not starts[change.tp] <= change.after <= ends[change.tp]:
            bounds = f"{starts[change.tp]} to {ends[change.tp]}"
            raise BadInputError(f"{change.after} is outside of {change.tp}, which has {bounds}", "changes")


def _read_plan(text: str) -> list[OffsetChange]:
    try:
        return msgspec.json.decode(text or "[]", type=list[OffsetChange])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BadInputError(f"The plan cannot be read: {error}", "plan") from None
