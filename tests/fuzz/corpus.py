"""A corpus of frames that found a defect, minimised and compressed."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.schema import Message, Struct
from tests.fuzz.judging import Failure, message_of, name_of

FOLDER = Path(__file__).parent / "corpus"
SUFFIX = ".frame.gz"
MAX_KEPT = 40_000  # bytes, compressed
ATTEMPTS = 24


def load(folder: Path = FOLDER) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        yield path.name.removesuffix(SUFFIX), gzip.decompress(path.read_bytes())


def keep(folder: Path, failure: Failure) -> Path | None:
    """Store a frame with its effect; None if it is too large."""
    data = gzip.compress(failure.frame, 9, mtime=0)
    if len(data) > MAX_KEPT:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{name_of(failure.frame)}-{failure.kind}-{hashlib.sha256(failure.frame).hexdigest()[:8]}".replace(
        " ", "-"
    )
    path = folder / f"{name}{SUFFIX}"
    path.write_bytes(data)
    (folder / f"{name}.txt").write_text(f"{failure}\n")
    return path


def minimised(frame: bytes, still_fails: Callable[[bytes], bool]) -> bytes:
    """The frame with its arrays halved as long as it fails; one that cannot be decoded is kept as it is."""
    decoded = message_of(frame)
    if decoded is None:
        return frame
    version, message = decoded
    best, attempts = frame, ATTEMPTS
    progress = True
    while progress and attempts:
        progress = False
        for owner, name in _arrays(message):
            values = getattr(owner, name)
            for kept in (values[: len(values) // 2], values[len(values) // 2 :]):
                if attempts == 0:
                    break
                attempts -= 1
                setattr(owner, name, kept)
                smaller = _encoded(message, version)
                if smaller is not None and still_fails(smaller):
                    best, progress = smaller, True
                    break
                setattr(owner, name, values)
            if progress:
                break
    return best


def _encoded(message: Message, version: int) -> bytes | None:
    try:
        return b"".join(encode_request(RequestHeader(message.api_key, version, 1, "fuzz"), message))
    except (ValueError, OverflowError):
        return None


def _arrays(message: Message) -> list[tuple[Struct, str]]:
    """Arrays with more than one element, longest first; repeated structs are searched once."""
    found: list[tuple[Struct, str]] = []
    waiting: list[Struct] = [message]
    while waiting:
        current = waiting.pop()
        for field in current.FIELDS:
            value = getattr(current, field.name)
            if isinstance(value, Struct):
                waiting.append(value)
            elif isinstance(value, list) and value:
                if len(value) > 1:
                    found.append((current, field.name))
                waiting += [item for item in value[:3] if isinstance(item, Struct)]
    return sorted(found, key=lambda place: -len(getattr(*place)))
