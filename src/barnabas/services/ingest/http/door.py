"""Queue between HTTP requests and the transactions of the agent. app -> admit (429) -> post -> wait -> 200, or 503
    agent         begin -> take a parcel of posts -> commit -> arrived

A request reserves its bytes from the first one read until the response; `queue_bytes` limits the total. A post that
times out is withdrawn if it is still queued. If it is already in a transaction, its outcome is unknown, and the
response says so.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.records import Record
from barnabas.services.ingest.http import errors
from barnabas.services.ingest.http.keys import KeyStore, Used
from barnabas.services.ingest.http.settings import HttpSettings

NOT_KNOWN = (
    "the broker did not acknowledge in time, so the outcome is unknown: retry with the same Idempotency-Key"
)
NOT_WRITTEN = "the broker is not reachable; nothing was written"


@dataclass(slots=True)
class HttpCounts:
    received: int = 0
    """Committed records."""
    bytes: int = 0
    requests: int = 0
    refused: int = 0
    """Responses with status 4xx."""
    failed: int = 0
    """Responses with status 5xx."""
    replayed: int = 0
    dropped: int = 0
    """Responses with status 429."""
    keys: int = 0
    waiting_bytes: int = 0


@dataclass(slots=True, eq=False)
class PendingRequest:
    """One request; all its records are in the same transaction."""

    records: Sequence[Record]
    used: Used | None
    done: asyncio.Future[None]
    size: int = field(init=False)
    is_taken: bool = False

    def __post_init__(self) -> None:
        self.size = sum(len(record.value or b"") for record in self.records)


class RequestBatch(NamedTuple):
    posts: Sequence[PendingRequest]

    @property
    def records(self) -> list[Record]:
        return [record for post in self.posts for record in post.records]

    @property
    def used(self) -> list[Used]:
        return [post.used for post in self.posts if post.used is not None]


class Reservation:
    """Bytes reserved by one request."""

    def __init__(self, door: PublishQueue) -> None:
        self._door = door
        self._held = 0

    def grow(self, size: int) -> None:
        """Reserve more bytes; PublishError 429 if the queue is full."""
        counts = self._door.counts
        if counts.waiting_bytes + size > self._door.settings.queue_bytes:
            raise errors.full()
        counts.waiting_bytes += size
        self._held += size

    def release(self) -> None:
        self._door.counts.waiting_bytes -= self._held
        self._held = 0


class PublishQueue:
    def __init__(self, settings: HttpSettings, now: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.counts = HttpCounts()
        self.closed: str | None = "not connected to a broker yet"
        """Reason why requests are rejected; None: accepting."""
        self.largest_record = 0
        self.arrived: Callable[[], None] = lambda: None
        self._now = now
        self._keys = KeyStore(settings.idempotency_keys, settings.idempotency_ttl)
        self._waiting: deque[PendingRequest] = deque()
        self._in_progress: dict[bytes, PendingRequest] = {}
        """Uncommitted posts by idempotency key."""

    def check_open(self) -> None:
        if self.closed is not None:
            raise errors.unavailable(f"{NOT_WRITTEN}: {self.closed}")

    async def post(self, records: Sequence[Record], used: Used | None) -> bool:
        """Wait for the commit of the records; return True if an earlier request wrote them."""
        self.check_open()
        if used is not None:
            known = self._keys.find(used.key, self._now())
            if known is not None:
                return _same(known, used)
            if (other := self._in_progress.get(used.key)) is not None and other.used is not None:
                _same(other.used, used)
                await self._settled(other)
                return True
        post = PendingRequest(records, used, asyncio.get_running_loop().create_future())
        self._waiting.append(post)
        if used is not None:
            self._in_progress[used.key] = post
        self.arrived()
        await self._settled(post)
        return False

    async def _settled(self, post: PendingRequest) -> None:
        try:
            async with asyncio.timeout(self.settings.timeout):
                await asyncio.shield(post.done)
        except TimeoutError:
            if post.is_taken:
                raise errors.unavailable(NOT_KNOWN) from None
            self._withdraw(post)
            raise errors.unavailable(NOT_WRITTEN) from None

    def _withdraw(self, post: PendingRequest) -> None:
        if post in self._waiting:
            self._waiting.remove(post)
            self._forget(post)

    def _forget(self, post: PendingRequest) -> None:
        if post.used is not None and self._in_progress.get(post.used.key) is post:
            del self._in_progress[post.used.key]

    # Called by the agent.

    def begin(self, positions: Mapping[str, bytes], largest_record: int) -> None:
        self._keys.load(positions)
        self.counts.keys = len(self._keys)
        self.largest_record = largest_record
        self.closed = None

    def take(self, room: int) -> RequestBatch | None:
        """Dequeue posts of up to `room` bytes, at least one; None if the queue is empty."""
        posts: list[PendingRequest] = []
        size = 0
        while self._waiting and (not posts or size + self._waiting[0].size <= room):
            post = self._waiting.popleft()
            post.is_taken = True
            posts.append(post)
            size += post.size
        return RequestBatch(posts) if posts else None

    def keys_of(self, parcel: RequestBatch) -> tuple[int, dict[str, bytes | None]]:
        """Return the number of the parcel's key entry and the positions to store with it."""
        return self._keys.store(parcel.used, self._now())

    def committed(self, parcel: RequestBatch, entry: int | None = None) -> None:
        """Complete the posts. `entry` is None after a restart, when `begin` loads the stored keys anyway."""
        if entry is not None:
            self._keys.stored(entry, parcel.used, self._now())
            self.counts.keys = len(self._keys)
        for post in parcel.posts:
            self._forget(post)
            self.counts.received += len(post.records)
            self.counts.bytes += post.size
            if not post.done.done():
                post.done.set_result(None)


def _same(known: Used, used: Used) -> bool:
    if known.body != used.body:
        raise errors.PublishError(422, "this Idempotency-Key was used for another body; use a new one")
    return True
