"""Audit log: allowed and denied operations by principal and resource, and logins.

Requests put events into a queue (`AuditLog`); `broker/security/audit` drains and writes it. The queue is bounded:
events that do not fit are counted, and the count is written as an event of type `lost`. Events contain names only,
never the content of a request, so they cannot leak secrets.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.security.authz.authorizer import Access, Action, Authorizer, Operation
from barnabas.security.context import RequestContext

TOPIC = "__barnabas_audit"

_CHANGES = frozenset(
    {
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.ALTER_CONFIGS,
        Operation.CREATE_TOKENS,
    }
)

Event = dict[str, Any]


class Selection(NamedTuple):
    """Included names (all if empty) and excluded names."""

    wanted: frozenset[str] = frozenset()
    unwanted: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> Selection:
        stripped = [name.strip() for name in names if name.strip()]
        return cls(
            frozenset(name for name in stripped if not name.startswith("-")),
            frozenset(name[1:] for name in stripped if name.startswith("-")),
        )

    def takes(self, name: str) -> bool:
        return name not in self.unwanted and (not self.wanted or name in self.wanted)


class AuditPolicy(NamedTuple):
    """Selects the events to write."""

    events: frozenset[str]
    apis: Selection = Selection()
    operations: Selection = Selection()
    principals: Selection = Selection()

    def takes(self, api: str, operation: Operation, is_allowed: bool) -> bool:
        """True if the event is selected, apart from its principal; callers may cache the result."""
        return (
            self._takes_kind(operation, is_allowed)
            and self.apis.takes(api)
            and self.operations.takes(operation.name)
        )

    def _takes_kind(self, operation: Operation, is_allowed: bool) -> bool:
        if not is_allowed:
            return "denied" in self.events
        return "allowed" in self.events or ("admin" in self.events and operation in _CHANGES)


class AuditLog:
    """Queue of events to write. Used on the event loop only."""

    def __init__(self, policy: AuditPolicy, node_id: int, now_ms: Callable[[], int], limit: int) -> None:
        self._policy = policy
        self._node_id = node_id
        self._now_ms = now_ms
        self._limit = limit
        self._taken: dict[tuple[str, Operation, bool], bool] = {}
        self._queue: list[Event] = []
        self._lost_now = 0
        self.written = 0
        self.lost = 0
        self._on_first: Callable[[], None] = lambda: None

    def call_when_waiting(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the queue becomes non-empty."""
        self._on_first = callback

    @property
    def is_waiting(self) -> bool:
        return bool(self._queue) or self._lost_now > 0

    def decided(self, context: RequestContext, api: str, action: Action, is_allowed: bool) -> None:
        """Record that a request was allowed or denied an action, except requests between brokers."""
        if is_allowed and context.is_privileged and _is_between_brokers(action):
            return
        kind = api, action.operation, is_allowed
        is_taken = self._taken.get(kind)
        if is_taken is None:
            is_taken = self._taken[kind] = self._policy.takes(*kind)
        if is_taken and self._policy.principals.takes(str(context.principal)):
            self._add(
                {
                    "event": "request",
                    **self._subject(context),
                    "api": api,
                    "operation": action.operation.name,
                    "resource_type": action.resource_type.name,
                    "resource": action.name,
                    "allowed": is_allowed,
                }
            )

    def logged_in(
        self, context: RequestContext, mechanism: str, principal: str | None, is_allowed: bool
    ) -> None:
        """Record a successful login, or a failed one, for which `principal` is None."""
        is_taken = "logins" in self._policy.events or (not is_allowed and "denied" in self._policy.events)
        if is_taken and self._policy.principals.takes(principal or ""):
            who = {**self._subject(context), "principal": principal}
            self._add({"event": "login", **who, "mechanism": mechanism, "allowed": is_allowed})

    def _subject(self, context: RequestContext) -> Event:
        return {
            "principal": str(context.principal),
            "host": context.host,
            "client_id": context.client_id,
            "listener": context.listener,
            "forwarded": context.is_forwarded,
        }

    def _add(self, event: Event) -> None:
        if len(self._queue) < self._limit:
            self._queue.append({**self._when(), **event})
            if len(self._queue) == 1:
                self._on_first()
        else:
            self.lost += 1
            self._lost_now += 1

    def _when(self) -> Event:
        timestamp = datetime.fromtimestamp(self._now_ms() / 1000, UTC)
        return {"time": timestamp.isoformat(timespec="milliseconds"), "node": self._node_id}

    def take(self) -> list[Event]:
        """Drain the queue; adds a `lost` event if events were dropped."""
        events, self._queue = self._queue, []
        if self._lost_now:
            events.append({**self._when(), "event": "lost", "count": self._lost_now})
            self._lost_now = 0
        self.written += len(events)
        return events

    def give_up(self, events: list[Event]) -> None:
        """Count events that could not be written as lost."""
        self.written -= len(events)
        self.lost += len(events)
        self._lost_now += len(events)


def _is_between_brokers(action: Action) -> bool:
    """True for actions of brokers. Super users are privileged, too, so their other actions are recorded."""
    return action.operation is Operation.CLUSTER_ACTION or action.name == TOPIC


class AuditedAccess(Access):
    """Rights of one request, with its decisions recorded in the audit log."""

    __slots__ = ("_api", "_audit")

    def __init__(self, authorizer: Authorizer, context: RequestContext, audit: AuditLog, api: str) -> None:
        super().__init__(authorizer, context)
        self._audit = audit
        self._api = api

    def tell(self, action: Action, is_allowed: bool) -> None:
        self._audit.decided(self.context, self._api, action, is_allowed)


# -- Audit log file: JSON lines, readable by the owner only, rotated by size ---------------------------

OWNER_ONLY = 0o600


def lines_of(events: Iterable[Event]) -> bytes:
    return b"".join(json.dumps(event, ensure_ascii=True).encode() + b"\n" for event in events)


class AuditFile:
    """Written by one thread at a time. Opened for each write, so that it may be moved at any time."""

    def __init__(self, path: Path, max_bytes: int, count: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._count = count

    def write(self, lines: bytes) -> None:
        """Append lines, rotating the file first if they do not fit; OSError on failure."""
        if self._length() + len(lines) > self._max_bytes and self._length():
            self._rotate()
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
        try:
            os.fchmod(descriptor, OWNER_ONLY)
            view = memoryview(lines if _ends_a_line(descriptor) else b"\n" + lines)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)

    def _length(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def _rotate(self) -> None:
        """Rename FILE to FILE.1, FILE.1 to FILE.2 and so on; delete the oldest."""
        self._numbered(self._count).unlink(missing_ok=True)
        for number in range(self._count - 1, 0, -1):
            if self._numbered(number).exists():
                self._numbered(number).rename(self._numbered(number + 1))
        if self._count:
            self._path.rename(self._numbered(1))
        else:
            self._path.unlink()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


def _ends_a_line(descriptor: int) -> bool:
    """False if a full disk or a crash truncated the last line: the next line must not be joined to it."""
    length = os.fstat(descriptor).st_size
    return not length or os.pread(descriptor, 1, length - 1) == b"\n"
