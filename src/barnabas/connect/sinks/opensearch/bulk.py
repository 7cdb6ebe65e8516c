"""Bodies of `_bulk` requests, and what their answers mean. No I/O.

A document carries its offset as external version: the server keeps the newest, and answers 409 to one that it has, or
that is older than what it has. So a request can be sent again at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from barnabas.spark import SourceError

MAX_REASON = 500  # letters
MAX_ID = 512  # bytes, by both servers
CONFLICT, NOT_FOUND, BUSY, TOO_LARGE = 409, 404, 429, 413
RETRIABLE = frozenset({BUSY, 500, 502, 503, 504})
DENIED = frozenset({401, 403})


class BulkError(SourceError):
    """The server takes no documents at all. The text says what to do."""


class Document(NamedTuple):
    row: int
    """Its place in the rows that are written."""
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
    """Documents that the server has in this version or a newer one."""
    again: list[Document] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


_encode = msgspec.json.Encoder().encode


def bodies(documents: Iterable[Document], most: int) -> Iterator[tuple[list[Document], bytes]]:
    """Requests of at most so many bytes; a document that is larger by itself goes alone."""
    chosen: list[Document] = []
    parts: list[bytes] = []
    size = 0
    for document in documents:
        lines = document.lines()
        if chosen and size + len(lines) > most:
            yield chosen, b"".join(parts)
            chosen, parts, size = [], [], 0
        chosen.append(document)
        parts.append(lines)
        size += len(lines)
    if chosen:
        yield chosen, b"".join(parts)


def problem_of(document: Document) -> str | None:
    """What the server would refuse the whole request for."""
    if not document.name:
        return "the record has no key: its document has no _id"
    if len(document.name.encode()) > MAX_ID:
        return f"the document's _id is longer than {MAX_ID} bytes"
    return "the record has no index to go to" if not document.target else None


def understand(sent: Sequence[Document], text: bytes) -> BulkResponse:
    """What became of each document. BulkError for an answer that says nothing, or that nobody may write."""
    try:
        items = msgspec.json.decode(text)["items"]
        results = [next(iter(item.values())) for item in items]
    except (msgspec.DecodeError, KeyError, TypeError, StopIteration, AttributeError):
        raise BulkError(
            f"the answer to a bulk request is none of OpenSearch or Elasticsearch: {text[:200]!r}"
        ) from None
    if len(results) != len(sent):
        raise BulkError(f"{len(sent)} documents were sent, and the answer has {len(results)}")
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
            f"the server refuses documents for {document.target}: {reason_of(result)}. The user needs the rights to "
            "index documents there (write), and to create the index if it is not there (create_index)"
        )
    elif status == NOT_FOUND:
        raise BulkError(
            f"there is no index {document.target}, and the server does not make one: create it, or allow "
            "action.auto_create_index"
        )
    else:
        answer.refused.append(Refused(document.row, reason_of(result)))


def reason_of(result: dict[str, Any]) -> str:
    """`mapper_parsing_exception: failed to parse field [amount] ...`, with the cause that says most."""
    error = result.get("error")
    if not isinstance(error, dict):
        return f"status {result.get('status')}: {error}"[:MAX_REASON]
    said = [f"{error.get('type')}: {error.get('reason')}"]
    cause = error.get("caused_by")
    if isinstance(cause, dict):
        said.append(str(cause.get("reason")))
    return "; ".join(said)[:MAX_REASON]
