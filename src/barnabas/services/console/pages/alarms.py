"""Firing alarms with their duration and remedy, and all alarm rules."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Iterable
from itertools import groupby

import msgspec

from barnabas.security.authz import CLUSTER_NAME, Operation, ResourceType
from barnabas.services.console.alarms.catalogue import ALARMS, BY_NAME
from barnabas.services.console.alarms.conditions import Alarm, Subject
from barnabas.services.console.alarms.tracker import AlarmTracker, Raised
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError
from barnabas.services.console.needs import SHOWN
from barnabas.services.console.rendering import quote
from barnabas.services.console.routes import NavigationEntry, Routes

routes = Routes()

MAX_SHOWN = 20
"""Findings listed per alarm; further ones are only counted."""


class AlarmsQuery(msgspec.Struct):
    silence: str = ""
    """Comma-separated names of alarms to leave out."""
    show: str = ""
    """rules: the page shows the rules instead of what is wrong; JSON has both."""


class FindingRow(msgspec.Struct):
    text: str
    since_ms: int
    url: str
    """Page of the topic or group; empty for cluster findings."""


class PendingRow(msgspec.Struct):
    """A finding that has not lasted long enough to fire."""

    alarm: str
    text: str
    since_ms: int
    fires_in: float
    """Seconds until the alarm fires."""
    url: str


class AlarmRow(msgspec.Struct):
    name: str
    severity: str
    sentence: str
    action: str
    since_ms: int
    seconds: float
    """Time since the condition was first met."""
    findings: list[FindingRow]
    more: int
    """Number of findings not shown."""
    silence: str
    """Query that silences the alarm."""


class AlarmRuleRow(msgspec.Struct):
    name: str
    severity: str
    sentence: str
    action: str
    seconds: int
    """Time that the condition must hold before the alarm fires."""
    expression: str
    in_console: bool
    """False for rules that need broker metrics: only Prometheus evaluates them."""


class Silenced(msgspec.Struct):
    name: str
    unsilence: str
    """Query that shows the alarm again; empty if the console's settings silence it."""


class AlarmsPage(msgspec.Struct):
    firing: list[AlarmRow]
    pending: int
    """Findings that have not lasted long enough to fire."""
    soon: list[PendingRow]
    """The first of them, by the time at which they fire."""
    silenced: list[Silenced]
    rules: list[AlarmRuleRow]
    age_seconds: float
    error: str


@routes.page(
    "/alarms", needs=SHOWN, template="alarms/list.html", entry=NavigationEntry("Alarms", "a", 5, "alarms")
)
async def show_alarms(context: RequestScope, query: AlarmsQuery) -> AlarmsPage:
    """Firing alarms, worst first. `silence`: comma-separated names of alarms to leave out."""
    wanted = _silenced(query.silence)
    hidden = wanted | context.settings.silenced_alarms
    tracker, snapshot = context.cluster.alarms, context.cluster.sampler.snapshot
    seen = [each for each in await raised_alarms(context) if each.alarm.name not in wanted]
    loud = [each for each in tracker.pending if each.alarm.name not in hidden]
    pending = await _allowed(context, loud)
    return AlarmsPage(
        firing=_rows(context, seen, tracker, wanted),
        pending=len(pending),
        soon=_soon(context, pending),
        silenced=[_silenced_row(name, wanted) for name in sorted(hidden)],
        rules=[_rule(alarm) for alarm in ALARMS],
        age_seconds=round(snapshot.age, 1),
        error=snapshot.error,
    )


async def raised_alarms(context: RequestScope) -> list[Raised]:
    """Firing alarms that the user may see and that the console's settings do not silence."""
    silenced = context.settings.silenced_alarms
    loud = [each for each in context.cluster.alarms.firing if each.alarm.name not in silenced]
    return await _allowed(context, loud)


def _silenced(text: str) -> set[str]:
    names = {name for each in text.split(",") if (name := each.strip())}
    unknown = sorted(names - BY_NAME.keys())
    if unknown:
        raise BadInputError(f"unknown alarm {unknown[0]!r}; the alarms page lists all names", field="silence")
    return names


async def _allowed(context: RequestScope, raised: list[Raised]) -> list[Raised]:
    """Filter by DESCRIBE on the cluster, topic or group of each finding."""
    sees_cluster = await context.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    seen = {Subject.CLUSTER: {""} if sees_cluster else set()}
    for subject, kind in ((Subject.TOPIC, ResourceType.TOPIC), (Subject.GROUP, ResourceType.GROUP)):
        names = {each.finding.resource for each in raised if each.finding.subject is subject}
        seen[subject] = await context.allowed(Operation.DESCRIBE, kind, names)
    return [each for each in raised if each.finding.resource in seen[each.finding.subject]]


def _rows(
    context: RequestScope, raised: Iterable[Raised], tracker: AlarmTracker, silenced: set[str]
) -> list[AlarmRow]:
    order = {alarm.name: at for at, alarm in enumerate(ALARMS)}
    by_alarm = sorted(raised, key=lambda each: (each.alarm.severity.rank, order[each.alarm.name]))
    return [
        _row(context, alarm, list(found), tracker.more(alarm.name), silenced)
        for alarm, found in groupby(by_alarm, key=lambda each: each.alarm)
    ]


def _row(context: RequestScope, alarm: Alarm, found: list[Raised], more: int, silenced: set[str]) -> AlarmRow:
    since_ms = min(each.since_ms for each in found)
    shown = sorted(found, key=lambda each: each.since_ms)[:MAX_SHOWN]
    return AlarmRow(
        alarm.name,
        alarm.severity.value,
        alarm.sentence,
        alarm.action,
        since_ms,
        max(0.0, time.time() - since_ms / 1000),
        [FindingRow(each.finding.text, each.since_ms, alarm_url(context, each)) for each in shown],
        len(found) - len(shown) + more,
        _query(silenced | {alarm.name}),
    )


def _soon(context: RequestScope, pending: list[Raised]) -> list[PendingRow]:
    fires = {each: each.since_ms / 1000 + each.alarm.seconds - time.time() for each in pending}
    first = sorted(pending, key=lambda each: fires[each])[:MAX_SHOWN]
    return [
        PendingRow(
            each.alarm.name,
            each.finding.text,
            each.since_ms,
            round(max(0.0, fires[each]), 1),
            alarm_url(context, each),
        )
        for each in first
    ]


def alarm_url(context: RequestScope, raised: Raised) -> str:
    kind = {Subject.TOPIC: "topics", Subject.GROUP: "groups"}.get(raised.finding.subject)
    return context.url(f"/{kind}/{quote(raised.finding.resource)}") if kind else ""


def _silenced_row(name: str, wanted: set[str]) -> Silenced:
    return Silenced(name, _query(wanted - {name}) if name in wanted else "")


def _query(names: set[str]) -> str:
    return "?" + urllib.parse.urlencode({"silence": ",".join(sorted(names))})


def _rule(alarm: Alarm) -> AlarmRuleRow:
    return AlarmRuleRow(
        alarm.name,
        alarm.severity.value,
        alarm.sentence,
        alarm.action,
        alarm.seconds,
        alarm.expression,
        alarm.find is not None,
    )
