"""Criteria of failure: loop time, memory, uninformative responses, client-supplied text in the log."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from barnabas.protocol.api import APIS, ApiKey, request_class, response_class
from barnabas.protocol.codec import decode
from barnabas.protocol.framing import decode_request_header, decode_response
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ProtocolError
from tests.fuzz.driving import Cost, Hung, Target
from tests.fuzz.world import walk_error_codes

LOOP_SECONDS = 0.050
MEMORY_BYTES = 64 << 20
LOG_LINES = 100  # of one frame
TRIES = 3
UNKNOWN_SERVER_ERROR = -1


@dataclass(frozen=True)
class Failure:
    """One thing that must not happen. `kind`: loop, memory, hung, log, flood, error, answer, pool."""

    api: str
    kind: str
    told: str
    frame: bytes = b""

    @property
    def key(self) -> tuple[str, str]:
        return self.api, self.kind

    def __str__(self) -> str:
        return f"{self.api}: {self.kind}: {self.told} (a frame of {len(self.frame):,} bytes)"


def api_of(frame: bytes) -> tuple[int, int] | None:
    """API key and version, if there are any that we know."""
    if len(frame) < 14:
        return None
    api_key, version = struct.unpack_from(">hh", frame, 4)
    return (api_key, version) if api_key in APIS else None


def name_of(frame: bytes) -> str:
    found = api_of(frame)
    return APIS[found[0]].name if found else "unknown API"


def correlation_id(frame: bytes) -> int | None:
    return int(struct.unpack_from(">i", frame, 8)[0]) if len(frame) >= 12 else None


def message_of(frame: bytes) -> tuple[int, Message] | None:
    """Version and message of a valid frame."""
    try:
        header, position = decode_request_header(memoryview(frame), 4, len(frame))
        message, _ = decode(request_class(header.api_key), header.api_version, memoryview(frame)[position:])
    except (ProtocolError, KeyError, ValueError):
        return None
    return header.api_version, message


def expects_no_answer(frame: bytes) -> bool:
    """A Produce with acks=0; anything else is answered."""
    found = api_of(frame)
    if found is None or found[0] != ApiKey.PRODUCE:
        return False
    decoded = message_of(frame)
    return decoded is not None and isinstance(decoded[1], ProduceRequest) and decoded[1].acks == 0


def read_answers(
    frames: Iterable[bytes], answers: Iterable[bytes]
) -> Iterator[tuple[bytes, Message | Failure]]:
    """(frame, decoded response or error), by correlation ids."""
    by_id = {correlation_id(frame): frame for frame in frames}
    for answer in answers:
        frame = by_id.get(struct.unpack_from(">i", answer)[0]) if len(answer) >= 4 else None
        if frame is None or (found := api_of(frame)) is None:
            yield b"", Failure("unknown API", "answer", f"nobody has asked for {answer[:40]!r}")
            continue
        yield frame, _decoded(frame, *found, answer)


def _decoded(frame: bytes, api_key: int, version: int, answer: bytes) -> Message | Failure:
    cls = response_class(api_key)
    if api_key == ApiKey.API_VERSIONS and not cls.min_version <= version <= cls.max_version:
        version = 0  # KIP-511
    try:
        _, message, end = decode_response(api_key, version, cls, memoryview(answer))
    except (ProtocolError, ValueError) as error:
        return Failure(name_of(frame), "answer", f"cannot be decoded: {error}", frame)
    if end != len(answer):
        return Failure(name_of(frame), "answer", f"has {len(answer) - end} bytes too many", frame)
    if UNKNOWN_SERVER_ERROR in walk_error_codes(message):
        return Failure(name_of(frame), "error", "UNKNOWN_SERVER_ERROR", frame)
    result: Message = message
    return result


def is_suspect(cost: Cost, largest: int) -> bool:
    return (
        cost.seconds > LOOP_SECONDS
        or cost.peak > MEMORY_BYTES + largest
        or bool(cost.complaints)
        or cost.lines > LOG_LINES
    )


def over(cost: Cost, frame: bytes) -> list[Failure]:
    """Costs of a single frame above its limits."""
    name = name_of(frame)
    failures = []
    if cost.seconds > LOOP_SECONDS:
        failures.append(Failure(name, "loop", f"held the loop for {cost.seconds * 1000:,.0f} ms", frame))
    if cost.peak > MEMORY_BYTES + len(frame):
        failures.append(Failure(name, "memory", f"took {cost.peak >> 20:,} MB", frame))
    if cost.lines > LOG_LINES:
        failures.append(Failure(name, "flood", f"wrote {cost.lines:,} lines into the log", frame))
    failures += [Failure(name, "log", _short(complaint), frame) for _, complaint in cost.complaints[:1]]
    return failures


def _short(complaint: str) -> str:
    """Truncate the middle of lines with client text."""
    return "\n".join(
        line if len(line) < 300 else f"{line[:150]} ... {line[-100:]}" for line in complaint.splitlines()
    )


def alone(target: Target, frame: bytes) -> list[Failure]:
    """Send a single frame and measure its cost."""
    target.settle()
    try:
        target.exchange([frame], quiet=0.05)
        return over(target.cost(), frame)
    except Hung as hung:
        return [Failure(name_of(frame), "hung", str(hung), frame)]


def confirmed(target: Target, frame: bytes, tries: int = TRIES) -> list[Failure]:
    """Repeatable findings of a frame: others are noise or caused by earlier frames."""
    kept: dict[str, Failure] = {}
    for attempt in range(tries):
        found = {failure.kind: failure for failure in alone(target, frame)}
        kept = found if attempt == 0 else {kind: failure for kind, failure in kept.items() if kind in found}
        if not kept or "hung" in kept:
            break
    return list(kept.values())
