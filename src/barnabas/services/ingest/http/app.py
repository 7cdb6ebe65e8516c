"""Endpoints of the HTTP source: `POST /` (or `/topics/TOPIC`) and `GET /health`.

Authentication: the token file or the CA of client certificates decides who may post. The records are written as the
agent's principal, which needs Write on the topic.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from barnabas.common.safe_logging import rate_limited_logger
from barnabas.records import Header, Record, largest_encoded_size
from barnabas.services.ingest.http import errors
from barnabas.services.ingest.http.bodies import key_reader, media_of, plain_body, prepare, read_values
from barnabas.services.ingest.http.door import PublishQueue, Reservation
from barnabas.services.ingest.http.errors import PublishError
from barnabas.services.ingest.http.keys import digests
from barnabas.services.ingest.http.settings import HttpSettings
from barnabas.web import (
    BodyEndedError,
    BodyTooLargeError,
    CredentialFile,
    Receive,
    ResponseWriter,
    Scope,
    Send,
    headers_of,
    read_body,
)

HEALTH = "/health"
MAX_KEY = 255
REPLAY = ("idempotent-replay", "true")
Answer = tuple[int, Mapping[str, object], Sequence[tuple[str, str]]]

_logger = rate_limited_logger(__name__)


class Body(NamedTuple):
    data: bytes
    media: str


class ProduceApp:
    def __init__(self, settings: HttpSettings, door: PublishQueue) -> None:
        """Raises ConfigError if the token file is invalid."""
        self._settings = settings
        self._door = door
        self._paths = ("/", f"/topics/{settings.topic}")
        self._key_of = key_reader(settings.key_field)
        prepare(settings.max_records)
        self._key = None if settings.key is None else settings.key.encode()
        self._wanted = {name.lower() for name in settings.http_headers}
        self._tokens = (
            None if settings.token_file is None else CredentialFile(settings.token_file, "token_file")
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        counts = self._door.counts
        counts.requests += 1
        try:
            status, document, more = await self._answer(scope, receive)
        except PublishError as error:
            status, document, more = error.status, error.document, error.headers
        except Exception:
            _logger.exception("unexpected error while handling a request")
            status, document, more = 500, PublishError(500, "see the log of the agent").document, ()
        counts.dropped += status == 429
        counts.refused += 400 <= status < 500
        counts.failed += status >= 500
        await ResponseWriter(send).send(status, "application/json", msgspec.json.encode(document), more)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path, method, headers = scope["path"], scope["method"], headers_of(scope)
        if path == HEALTH:
            return self._health()
        if path not in self._paths:
            raise PublishError(404, f"not found: POST records to / or {self._paths[1]}, or GET {HEALTH}")
        if method != "POST":
            raise PublishError(405, "method not allowed; use POST", headers=(("allow", "POST"),))
        self._let_in(headers)
        self._door.check_open()
        return await self._produce(headers, receive)

    def _health(self) -> Answer:
        """Return up or down without details: the endpoint requires no authentication."""
        if self._door.closed is None:
            return 200, {"status": "up"}, ()
        return 503, {"status": "down"}, ()

    def _let_in(self, headers: Mapping[str, str]) -> None:
        if "origin" in headers:
            raise PublishError(403, "requests from browser pages are rejected")
        if self._tokens is None:
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._tokens.accepts(token.strip().encode("latin-1")):
            text = "authentication required: Authorization: Bearer TOKEN, with a token of the token file"
            raise PublishError(401, text, headers=(("www-authenticate", "Bearer"),))

    async def _produce(self, headers: Mapping[str, str], receive: Receive) -> Answer:
        share = Reservation(self._door)
        try:
            body = await self._body(headers, receive, share)
            records = await asyncio.to_thread(self._records, body, headers)
            key = _idempotency_key(headers)
            used = None if key is None else digests(key, body.data, len(records))
            is_replay = await self._door.post(records, used)
        finally:
            share.release()
        self._door.counts.replayed += is_replay
        return 200, {"accepted": len(records), "topic": self._settings.topic}, [REPLAY] if is_replay else ()

    async def _body(self, headers: Mapping[str, str], receive: Receive, share: Reservation) -> Body:
        limit = self._settings.max_body_bytes
        media = media_of(headers.get("content-type", ""))
        try:
            sent = await read_body(headers, receive, limit, share.grow)
        except BodyEndedError:
            raise errors.incomplete_body() from None
        except BodyTooLargeError:
            raise errors.too_large("the body is too large", limit, "max_body_bytes") from None
        data = await asyncio.to_thread(plain_body, sent, headers.get("content-encoding", ""), limit)
        if data is not sent:
            share.grow(len(data))
        return Body(data, media)

    def _records(self, body: Body, headers: Mapping[str, str]) -> list[Record]:
        values = read_values(body.data, body.media, self._settings.max_records)
        now, said = int(time.time() * 1000), self._headers(headers)
        records = [
            Record(0, now, self._key if self._key is not None else self._key_of(value), value, said)
            for value in values
        ]
        limit = self._door.largest_record
        for number, record in enumerate(records, 1):
            if limit and largest_encoded_size(record) > limit:
                text = f"record {number} exceeds max.message.bytes of the topic"
                raise PublishError(413, f"{text}; nothing of this body was written", line=number)
        return records

    def _headers(self, headers: Mapping[str, str]) -> tuple[Header, ...]:
        if not self._wanted:
            return self._settings.headers
        found = [(name, headers[name].encode("latin-1")) for name in sorted(self._wanted) if name in headers]
        return (*self._settings.headers, *found)


def _idempotency_key(headers: Mapping[str, str]) -> str | None:
    key = headers.get("idempotency-key")
    if key is None:
        return None
    if not 0 < len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise PublishError(400, f"an Idempotency-Key must have 1 to {MAX_KEY} ASCII characters")
    return key
