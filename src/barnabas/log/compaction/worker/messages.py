"""Messages between a broker and its worker process, in JSON."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from barnabas.log.compaction.candidates import CleanedGroup, CompactionPlan, CompactionResult

Job: TypeAlias = CompactionPlan
Part: TypeAlias = CleanedGroup
Result: TypeAlias = CompactionResult


class RunJob(msgspec.Struct, frozen=True, tag="run"):
    job: Job


class CancelJob(msgspec.Struct, frozen=True, tag="cancel"):
    """Cancel the job; ignored if it has ended."""


class JobProgress(msgspec.Struct, frozen=True, tag="progress"):
    """A part of the job is done and can be used before the job ends."""

    part: Part


class JobDone(msgspec.Struct, frozen=True, tag="done"):
    result: Result


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    reason: str
    no_room: bool = False
    """The disk was full; the job can be retried once there is free space."""


class Cancelled(msgspec.Struct, frozen=True, tag="cancelled"):
    pass


Request: TypeAlias = RunJob | CancelJob
Answer: TypeAlias = JobProgress | JobDone | Failed | Cancelled

_encoder = msgspec.json.Encoder()
_request_decoder: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_answer_decoder: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def encode(message: Request | Answer) -> bytes:
    return _encoder.encode(message)


def decode_request(data: bytes) -> Request:
    return _request_decoder.decode(data)


def decode_answer(data: bytes) -> Answer:
    return _answer_decoder.decode(data)
