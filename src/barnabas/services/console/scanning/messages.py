"""Messages between the console and its search processes, in msgpack.

Logins are pickled inside a job and travel over the pipe only. Answers of a process are never unpickled.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from barnabas.client.schemas import RegistryAccount
from barnabas.services.console.scanning.model import Hit, Search

CREDITS = 8
"""Unread answers per job: a slow reader blocks only its own job."""


class Range(msgspec.Struct, frozen=True, array_like=True):
    partition: int
    first: int
    until: int


class SearchJob(msgspec.Struct, frozen=True, tag=True):
    search: Search
    ranges: list[Range]


class TailJob(msgspec.Struct, frozen=True, tag=True):
    """Reads records appended after `ends` (by partition) until cancelled."""

    search: Search
    ends: dict[int, int]
    rows_per_second: int


class ExportJob(msgspec.Struct, frozen=True, tag=True):
    search: Search
    ranges: list[Range]
    format: str


class ReportJob(msgspec.Struct, frozen=True, tag=True):
    search: Search
    ranges: list[Range]
    most_keys: int
    points: int
    seconds: float
    """The report contains the records read in this time."""


class ValueJob(msgspec.Struct, frozen=True, tag=True):
    """Complete value of one record, as bytes."""

    search: Search
    ranges: list[Range]


class RawJob(msgspec.Struct, frozen=True, tag=True):
    """One record as stored."""

    search: Search
    ranges: list[Range]


Job: TypeAlias = SearchJob | TailJob | ExportJob | ReportJob | ValueJob | RawJob


class RunScan(msgspec.Struct, frozen=True, tag=True):
    number: int
    login: bytes
    registry: RegistryAccount
    job: Job


class CancelScan(msgspec.Struct, frozen=True, tag=True):
    number: int


class Taken(msgspec.Struct, frozen=True, tag=True):
    """Acknowledges an answer: the process may send another one."""

    number: int


Request: TypeAlias = RunScan | CancelScan | Taken


class ScanHits(msgspec.Struct, frozen=True, tag=True):
    """Hits in search order within each partition, and progress since the last answer.

    `positions`: next offset of each partition; `reached`: timestamp up to which it was read.
    """

    number: int
    hits: list[Hit]
    positions: dict[int, int]
    reached: dict[int, int]
    records: int
    bytes: int
    failures: int = 0
    failure: str = ""
    skipped: int = 0


class ExportChunk(msgspec.Struct, frozen=True, tag=True):
    number: int
    data: bytes


class ScanDone(msgspec.Struct, frozen=True, tag=True):
    """Last answer of a job. `error`: reason of a failure, as a sentence."""

    number: int
    error: str = ""
    field: str = ""
    notes: list[str] = []


Answer: TypeAlias = ScanHits | ExportChunk | ScanDone

_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_encoder = msgspec.msgpack.Encoder()


def encode(message: Request | Answer) -> bytes:
    return _encoder.encode(message)


def decode_request(data: bytes) -> Request:
    return _requests.decode(data)


def decode_answer(data: bytes) -> Answer:
    return _answers.decode(data)
