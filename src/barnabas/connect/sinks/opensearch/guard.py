"""Detects topics whose offsets are no longer valid document versions. With more partitions, a key may move to one with
lower offsets; a recreated topic starts again at offset 0. The server would silently discard both as stale.

The identity of a topic is stored with its first record, in an index on the same server, so that it is lost only
together with the documents. Tasks check it before they write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote

import msgspec

from barnabas.common.http_client import HttpResponse, HttpSession
from barnabas.connect.http_address import retry_after
from barnabas.connect.sinks.opensearch.bulk import CONFLICT, DENIED, BulkError
from barnabas.connect.sinks.opensearch.sending import Patience

IDENTITY_INDEX = "barnabas-connect"


class TopicIdentity(msgspec.Struct, frozen=True):
    id: str
    partitions: int


class _Stored(msgspec.Struct, frozen=True):
    source: TopicIdentity = msgspec.field(name="_source")


class TopicGuard:
    """Guard of one task. `look` asks the brokers for the current identity of topics."""

    def __init__(
        self,
        connector: str,
        session: HttpSession,
        look: Callable[[list[str]], Mapping[str, TopicIdentity]],
        patience: Patience,
    ) -> None:
        self._connector, self._session, self._look, self._patience = connector, session, look, patience
        self._checked: set[str] = set()

    def check(self, topics: set[str]) -> None:
        new = sorted(topics - self._checked)
        for topic, now in (self._look(new) if new else {}).items():
            before = self._remembered(topic, now)
            if before != now:
                raise BulkError(self._sentence(topic, before, now))
        self._checked |= topics

    def _sentence(self, topic: str, before: TopicIdentity, now: TopicIdentity) -> str:
        what = (
            f"topic {topic} has {now.partitions} partitions, and had {before.partitions}"
            if before.id == now.id
            else f"topic {topic} was deleted and created again"
        )
        return (
            f"{what}: its offsets no longer identify the newer document. Write to a new index: set another "
            "`name` and `index`, and the connector reads the topic from its beginning"
        )

    def _remembered(self, topic: str, now: TopicIdentity) -> TopicIdentity:
        path = quote(f"{self._connector}:{topic}", safe="")
        made = self._ask("PUT", f"/{IDENTITY_INDEX}/_create/{path}", msgspec.json.encode(now))
        if made.status in (200, 201):
            return now
        if made.status != CONFLICT:
            raise BulkError(
                f"what topic {topic} is cannot be kept in index {IDENTITY_INDEX}: {made.body[:300]!r}"
            )
        found = self._ask("GET", f"/{IDENTITY_INDEX}/_doc/{path}")
        try:
            return msgspec.json.decode(found.body, type=_Stored).source
        except msgspec.DecodeError as error:
            raise BulkError(
                f"the note of {topic} in index {IDENTITY_INDEX} is none of ours: {error}"
            ) from None

    def _ask(self, method: str, path: str, body: bytes = b"") -> HttpResponse:
        while True:
            try:
                reply = self._session.request(method, path, body, {"Content-Type": "application/json"})
            except OSError as error:
                self._patience.wait(str(error) or type(error).__name__)
                continue
            if reply.status in DENIED:
                raise BulkError(
                    f"the server refuses the user (status {reply.status}): it needs the rights to read and write index "
                    f"{IDENTITY_INDEX}, and to create it"
                )
            if reply.status < 500 and reply.status != 429:
                return reply
            self._patience.wait(f"status {reply.status}", retry_after(reply))
