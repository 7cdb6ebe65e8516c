"""Audit log: changes made through this console, and the brokers' audit topic."""

from __future__ import annotations

from typing import Literal

import msgspec

from barnabas.client import ConsumedRecord, Consumer
from barnabas.client.offsets import EARLIEST, beginning_offsets, end_offsets
from barnabas.common.retry import Deadline
from barnabas.common.types import TopicPartition
from barnabas.security.authz import TOPIC, Event, Operation, ResourceType
from barnabas.services.console.access.audit import ConsoleAudit
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import ResourceNotFoundError
from barnabas.services.console.needs import ADMINISTER, Needs
from barnabas.services.console.routes import NavigationEntry, Routes

routes = Routes()

MAX_SHOWN = 200
MAX_READ = 2000
READ_SECONDS = 5.0
OWN = Needs(
    note="a login; shown are changes in clusters where the user has the role admin, and logins to such"
)
READ = Needs(note=f"READ on TOPIC {TOPIC}")


class AuditQuery(msgspec.Struct):
    q: str = ""
    """Text anywhere in an event."""
    outcome: Literal["all", "allowed", "denied", "failed"] = "all"


class AuditRow(msgspec.Struct):
    time: str
    node: str
    principal: str
    host: str
    what: str
    resource: str
    outcome: str
    note: str = ""


class AuditPage(msgspec.Struct):
    events: list[AuditRow]
    found: int
    is_broker: bool
    """True for the brokers' audit log, read from their topic."""
    missing: str = ""


@routes.page(
    "/audit",
    needs=OWN,
    template="access/audit.html",
    entry=NavigationEntry("Audit", "h", 95, "audit", "Access"),
    outside=True,
)
async def show_audit(context: RequestScope, query: AuditQuery) -> AuditPage:
    """Changes made through this console, logins and refusals, newest first."""
    if not isinstance(context.audit, ConsoleAudit):
        raise ResourceNotFoundError("This console writes no audit log")
    administered = {each for each in context.clusters if await context.user.on(each).allows(ADMINISTER)}
    events = [each for each in await context.audit.newest() if _is_for(each, administered)]
    return _page(events, query, is_broker=False)


@routes.page("/audit", needs=READ, template="access/audit.html")
async def show_broker_audit(context: RequestScope, query: AuditQuery) -> AuditPage:
    """Audit log of the brokers, from the topic `__barnabas_audit` (barnabas.audit.topic.enable)."""
    await context.demand(Operation.READ, ResourceType.TOPIC, TOPIC)
    partition = TopicPartition(TOPIC, 0)
    shown = await context.client.refresh({TOPIC: None})  # ListOffsets would wait for a missing topic
    if shown.topics[TOPIC].error:
        missing = f"Topic {TOPIC} does not exist: set barnabas.audit.topic.enable=true on the brokers"
        return AuditPage([], 0, True, missing)
    first = (await beginning_offsets(context.client, [partition]))[partition]
    end = (await end_offsets(context.client, [partition]))[partition]
    events = await _read(context, partition, max(first, end - MAX_READ), end)
    return _page(events, query, is_broker=True)


async def _read(context: RequestScope, partition: TopicPartition, start: int, end: int) -> list[Event]:
    """Return the events of an offset range, newest first."""
    found: list[Event] = []
    deadline = Deadline(READ_SECONDS)
    async with Consumer(context.client, {partition: start}, out_of_range=EARLIEST) as consumer:
        while consumer.position(partition) < end and not deadline.passed:
            found += filter(None, map(_event, await consumer.poll(deadline.remaining)))
    return found[::-1]


def _event(record: ConsumedRecord) -> Event | None:
    try:
        return msgspec.json.decode(record.value or b"", type=dict)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def _is_for(event: Event, clusters: set[str]) -> bool:
    """True for events of these clusters; logins concern the console as a whole."""
    return event.get("cluster") in clusters or (bool(clusters) and not event.get("cluster"))


def _page(events: list[Event], query: AuditQuery, *, is_broker: bool) -> AuditPage:
    wanted = query.q.lower()
    rows = [
        row
        for each in events
        if wanted in msgspec.json.encode(each).decode().lower()
        and query.outcome in ("all", (row := _row(each)).outcome)
    ]
    return AuditPage(rows[:MAX_SHOWN], len(rows), is_broker)


def _row(event: Event) -> AuditRow:
    words = {name: str(event.get(name) or "") for name in ("time", "node", "principal", "host")}
    names = event.get("names")
    named = ", ".join(f"{name} {value}" for name, value in names.items()) if isinstance(names, dict) else ""
    return AuditRow(
        **words,
        what=_what(event),
        resource=_resource(event),
        outcome=_outcome(event),
        note=str(event.get("error") or named),
    )


def _what(event: Event) -> str:
    if event.get("event") == "login":
        return f"logs in with {event.get('mechanism')}"
    if event.get("event") == "lost":
        return f"{event.get('count')} events were lost"
    return (
        f"{event.get('api')}: {event.get('operation')}" if event.get("operation") else str(event.get("api"))
    )


def _resource(event: Event) -> str:
    where = f"{event['cluster']}: " if event.get("cluster") else ""
    kind = str(event.get("resource_type") or "").lower().replace("_", " ")
    return f"{where}{kind} {event.get('resource') or ''}".strip()


def _outcome(event: Event) -> str:
    if not event.get("allowed", True):
        return "denied"
    return {"failed": "failed", "begun": "cut off"}.get(str(event.get("state")), "allowed")
