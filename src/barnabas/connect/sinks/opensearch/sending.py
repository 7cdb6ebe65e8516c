"""Sends bulk requests until every document is written or rejected; retries documents after transient errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from barnabas.common.http_client import HttpResponse, HttpSession
from barnabas.common.retry import Backoff
from barnabas.connect.http_address import retry_after
from barnabas.connect.sinks.opensearch.bulk import (
    DENIED,
    RETRIABLE,
    TOO_LARGE,
    BulkError,
    BulkResponse,
    Document,
    Refused,
    bodies,
    problem_of,
    understand,
)

log = logging.getLogger(__name__)

FIRST_PAUSE, MAX_PAUSE = 0.1, 10.0


@dataclass
class ProgressTimeout:
    """Maximum time without progress, with backoff between attempts; progress resets both."""

    seconds: float
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    _since: float | None = None
    _backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_PAUSE, MAX_PAUSE, jitter=0))

    def progress(self) -> None:
        self._since = None
        self._backoff.reset()

    def wait(self, reason: str, at_least: float | None = None) -> None:
        now = self.now()
        self._since = now if self._since is None else self._since
        if now - self._since >= self.seconds:
            raise BulkError(
                f"the server has accepted no document for {self.seconds:.0f} seconds ({reason}): check the server, "
                "and restart the connector. Documents sent before are not written twice"
            )
        self.sleep(min(max(self._backoff.next_delay(), at_least or 0.0), MAX_PAUSE))


class BulkSender:
    def __init__(self, session: HttpSession, max_bytes: int, patience: ProgressTimeout) -> None:
        self._session, self._most, self._patience = session, max_bytes, patience
        self.written = self.known = 0

    def send(self, documents: Iterable[Document]) -> list[Refused]:
        refused: list[Refused] = []
        for group, body in bodies(self._sound(documents, refused), self._most):
            refused += self._deliver(group, body)
        return refused

    def _sound(self, documents: Iterable[Document], refused: list[Refused]) -> Iterable[Document]:
        for document in documents:
            problem = problem_of(document)
            if problem is None:
                yield document
            else:
                refused.append(Refused(document.row, problem))

    def _deliver(self, group: list[Document], body: bytes) -> list[Refused]:
        refused: list[Refused] = []
        while group:
            reply = self._ask(body)
            if reply is None:
                continue
            if reply.status == TOO_LARGE:
                return refused + self._divided(group)
            answer = understand(group, reply.body)
            self._count(answer)
            refused += answer.refused
            if len(answer.again) < len(group):
                self._patience.progress()
            if answer.again:
                self._patience.wait("it is busy", retry_after(reply))
                body = b"".join(document.lines() for document in answer.again)
            group = answer.again
        return refused

    def _ask(self, body: bytes) -> HttpResponse | None:
        """Return None if the request must be repeated."""
        try:
            reply = self._session.request("POST", "/_bulk", body, {"Content-Type": "application/x-ndjson"})
        except OSError as error:
            self._patience.wait(str(error) or type(error).__name__)
            return None
        if reply.status in RETRIABLE:
            self._patience.wait(f"status {reply.status}", retry_after(reply))
            return None
        if reply.status in DENIED:
            raise BulkError(
                f"the server rejects the user (status {reply.status}): check `user`, `password` or `api_key`. "
                "The rights that "
                "are needed: to index documents (write) and to create a missing index (create_index)"
            )
        if reply.status >= 300 and reply.status != TOO_LARGE:
            raise BulkError(
                f"the server rejects a bulk request (status {reply.status}): {reply.body[:300]!r}"
            )
        return reply

    def _divided(self, group: list[Document]) -> list[Refused]:
        if len(group) == 1:
            return [
                Refused(
                    group[0].row, f"the document is too large for the server ({len(group[0].body)} bytes)"
                )
            ]
        half = len(group) // 2
        found: list[Refused] = []
        for part in (group[:half], group[half:]):
            found += self._deliver(part, b"".join(document.lines() for document in part))
        return found

    def _count(self, answer: BulkResponse) -> None:
        self.written += answer.written
        self.known += answer.known
