"""Bodies and responses of `_bulk` requests. No I/O.

A document carries its offset as external version: the server keeps the newest version and answers 409 to the same or
an older one. A request can therefore be repeated at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from barnabas.spark import SourceError

MAX_REASON = 500  # characters
MAX_ID = 512  # bytes, in both servers
CONFLICT, NOT_FOUND, BUSY, TOO_LARGE = 409, 404, 429, 413
RETRIABLE = frozenset({BUSY, 500, 502, 503, 504})
DENIED = frozenset({401, 403})


class BulkError(SourceError):
    """The server accepts no documents at all. The message says what to do."""


class Document(NamedTuple):
    row: int
    """Index of the row in its Arrow batch."""
    target: str
    name: str
    version: int
    body: bytes

    def lines(self) -> bytes:
        meta = {"_index": self.target, "_id": self.name, "version": self.version, "version_type": "external"}
        return _encode({"index": meta}) + b"\n" + self.body + b"\n"


class Refused(NamedTuple):
    row: int
    reason: str


@dataclass
class BulkResponse:
    written: int = 0
    known: int = 0
    """Documents that the server already has in this version or a newer one."""
    again: list[Document] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


_encode = msgspec.json.Encoder().encode


def bodies(documents: Iterable[Document], limit: int) -> Iterator[tuple[list[Document], bytes]]:
    """Group documents into requests of at most `limit` bytes; a larger document is sent alone."""
    chosen: list[Document] = []
    parts: list[bytes] = []
    size = 0
    for document in documents:
        lines = document.lines()
        if chosen and size + len(lines) > limit:
            yield chosen, b"".join(parts)
            chosen, parts, size = [], [], 0
        chosen.append(document)
        parts.append(lines)
        size += len(lines)
    if chosen:
        yield chosen, b"".join(parts)


def problem_of(document: Document) -> str | None:
    """Return a problem for which the server would reject the whole request."""
    if not document.name:
        return "the record has no key: its document has no _id"
    if len(document.name.encode()) > MAX_ID:
        return f"the document's _id is longer than {MAX_ID} bytes"
    return "the record has no target index" if not document.target else None


def understand(sent: Sequence[Document], text: bytes) -> BulkResponse:
    """Parse the result of each document. BulkError for a malformed response, missing rights or a missing index."""
    try:
        items = msgspec.json.decode(text)["items"]
        results = [next(iter(item.values())) for item in items]
    except (msgspec.DecodeError, KeyError, TypeError, StopIteration, AttributeError):
        raise BulkError(f"not a bulk response of OpenSearch or Elasticsearch: {text[:200]!r}") from None
    if len(results) != len(sent):
        raise BulkError(f"{len(sent)} documents were sent, but the response has {len(results)} results")
    answer = BulkResponse()
    for document, result in zip(sent, results, strict=True):
        _sort(answer, document, result)
    return answer


def _sort(answer: BulkResponse, document: Document, result: dict[str, Any]) -> None:
    status = result.get("status", 500)
    if status < 300:
        answer.written += 1
    elif status == CONFLICT:
        answer.known += 1
    elif status in RETRIABLE:
        answer.again.append(document)
    elif status in DENIED:
        raise BulkError(
            f"the server rejects documents for {document.target}: {reason_of(result)}. The user needs the rights to "
            "index documents there (write), and to create a missing index (create_index)"
        )
    elif status == NOT_FOUND:
        raise BulkError(
            f"index {document.target} does not exist, and the server does not create it: create it, or allow "
            "action.auto_create_index"
        )
    else:
        answer.refused.append(Refused(document.row, reason_of(result)))


def reason_of(result: dict[str, Any]) -> str:
    """Format an error as `mapper_parsing_exception: failed to parse field [amount] ...`, followed by its cause."""
    error = result.get("error")
    if not isinstance(error, dict):
        return f"status {result.get('status')}: {error}"[:MAX_REASON]
    message = [f"{error.get('type')}: {error.get('reason')}"]
    cause = error.get("caused_by")
    if isinstance(cause, dict):
        message.append(str(cause.get("reason")))
    return "; ".join(message)[:MAX_REASON]
