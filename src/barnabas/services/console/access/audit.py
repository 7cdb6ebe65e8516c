"""Audit log of changes made through the console, in the format of the brokers' audit log (`security/authz/audit`).

A change is recorded before it is made, with `"state": "begun"` and an id, and again afterwards: `done`, or `failed`
with the reason. A change without a final event was interrupted. A change that cannot be recorded is not made.
Events contain names only, never the contents of a form, and therefore no secrets.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from barnabas.client import Client, ClientError, Producer
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import rate_limited_logger, safe_logger
from barnabas.security.authz import Action, AuditFile, Event, lines_of
from barnabas.services.console.access.model import AuditSettings
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BusyError, RefusedError, explain
from barnabas.services.console.routes import ConsoleMatch
from barnabas.services.console.users import Head

# -- Copy of the audit log in a topic; the file is authoritative ----------------------------------------

log = rate_limited_logger(__name__)

SEND_SECONDS = 5.0


class AuditTopicWriter:
    """The topic must exist; the console's principal needs WRITE on it."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._producer: Producer | None = None

    async def send(self, line: bytes) -> None:
        """Wait for the write, for a few seconds at most."""
        if self._producer is None:
            self._producer = Producer(self._client)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._producer.send(self._topic, line)
        except (ClientError, KafkaError, TimeoutError) as error:
            log.warning("An event of the audit log is missing in the topic %s: %s", self._topic, error)

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close()
            self._producer = None


_logger = safe_logger(__name__)

FILE = "audit.jsonl"
READ_BYTES = 4 * 1024 * 1024
"""Size of the end of the log that the page shows."""
MAX_NAMES = 100
_NAMES = (
    "topic", "topics", "group", "groups", "user", "principal", "name", "names", "broker", "brokers", "partition",
    "partitions", "transactional_id", "resource", "operation", "source", "target", "pipeline", "connector",
)  # fmt: skip


class AuditSink(Protocol):
    async def send(self, line: bytes) -> None: ...


class ConsoleAudit:
    def __init__(self, folder: Path, settings: AuditSettings, topic: AuditSink | None = None) -> None:
        self.path = folder / FILE
        self._file = AuditFile(self.path, settings.max_bytes, settings.files - 1)
        self._count = settings.files
        self._topic = topic
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def act(
        self, head: Head, context: RequestScope, match: ConsoleMatch, form: Any
    ) -> AsyncIterator[None]:
        if match.route.right.without_login:  # a login has a separate event
            yield
            return
        event = _event(head, context, match, _action(context, match, form), _named(form))
        event["id"] = secrets.token_hex(8)
        await self._write({**event, "allowed": True, "state": "begun"})
        try:
            yield
        except BaseException as error:
            await asyncio.shield(self._complete(event, error))
            raise
        await asyncio.shield(self._complete(event, None))

    async def refused(self, head: Head, context: RequestScope, match: ConsoleMatch, action: Action) -> None:
        event = _event(head, context, match, action, {})
        await self._write_if_possible({**event, "allowed": False, "state": "refused"})

    async def logged_in(self, host: str, name: str, mechanism: str, is_allowed: bool) -> None:
        identity = _who(name, host) if is_allowed else {**_who("", host), "principal": None}
        await self._write_if_possible(
            {"event": "login", **identity, "mechanism": mechanism, "allowed": is_allowed}
        )

    async def _complete(self, event: Event, error: BaseException | None) -> None:
        ended = {**event, "allowed": not isinstance(error, RefusedError)}
        if error is None:
            ended["state"] = "done"
        else:
            ended |= {"state": "failed", "error": _reason(error)}
        await self._write_if_possible(ended)

    async def _write_if_possible(self, event: Event) -> None:
        """Write an event of a change already made; a failure is only logged."""
        try:
            await self._write(event)
        except BusyError as error:
            _logger.error("%s: %s", error.message, event)

    async def _write(self, event: Event) -> None:
        line = lines_of([{**_when(), **event}])
        try:
            async with self._turn:
                await asyncio.to_thread(self._file.write, line)
        except OSError as error:
            raise BusyError(
                f"The audit log {self.path} cannot be written ({error.strerror}), so nothing is changed"
            ) from None
        if self._topic is not None:
            await self._topic.send(line.rstrip(b"\n"))

    async def newest(self) -> list[Event]:
        """Latest events, newest first; a change is one event with its final state."""
        return await asyncio.to_thread(_newest, self.path, self._count)


def _when() -> Event:
    timestamp = datetime.fromtimestamp(time.time(), UTC)
    return {"time": timestamp.isoformat(timespec="milliseconds"), "node": f"console {socket.gethostname()}"}


def _who(name: str, host: str) -> Event:
    return {
        "principal": f"User:{name}",
        "host": host,
        "client_id": "barnabas-console",
        "listener": "console",
        "forwarded": False,
    }


def _event(
    head: Head, context: RequestScope, match: ConsoleMatch, action: Action | None, named: dict[str, Any]
) -> Event:
    of = {} if action is None else {
        "operation": action.operation.name,
        "resource_type": action.resource_type.name,
        "resource": action.name,
    }  # fmt: skip
    cluster = "" if context.current is None else context.current.name
    path = {"api": f"{match.route.method} {match.route.path}", "cluster": cluster}
    return {"event": "request", **_who(context.user.name, head.host), **path, **of, "names": named}


def _action(context: RequestScope, match: ConsoleMatch, form: Any) -> Action | None:
    needs = match.route.right.all_of
    values = {**_named(form), **match.parameters}
    if not needs or (needs[0].parameter and needs[0].parameter not in values):
        return None
    return needs[0].action(values)


def _named(form: Any) -> dict[str, Any]:
    """Resources named in the form."""
    found = {name: getattr(form, name, None) for name in _NAMES}
    return {name: _short(value) for name, value in found.items() if value not in (None, "", [], ())}


def _short(value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return [str(each)[:250] for each in list(value)[:MAX_NAMES]]
    return value if isinstance(value, int) else str(value)[:250]


def _reason(error: BaseException) -> str:
    if not isinstance(error, Exception):
        return "cut off"
    try:
        return explain(error).message
    except Exception:
        return f"a defect: {type(error).__name__}"


def _newest(path: Path, files: int) -> list[Event]:
    found: list[Event] = []
    ended: set[str] = set()
    room = READ_BYTES
    for number in range(files):
        part = path if number == 0 else path.with_name(f"{path.name}.{number}")
        data = _end_of(part, room)
        room -= len(data)
        for event in _events(data):
            if event.get("id") in ended:
                continue  # the `begun` event of a completed change
            ended.add(event.get("id") or "")
            ended.discard("")
            found.append(event)
        if room <= 0:
            break
    return found


def _end_of(path: Path, room: int) -> bytes:
    try:
        with path.open("rb") as file:
            length = file.seek(0, 2)
            file.seek(max(0, length - room))
            data = file.read(room)
    except OSError:
        return b""
    return data if length <= room else data.partition(b"\n")[2]


def _events(data: bytes) -> Iterator[Event]:
    for line in reversed(data.splitlines()):
        try:
            event = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue  # cut off when the process died
        if isinstance(event, dict):
            yield event
