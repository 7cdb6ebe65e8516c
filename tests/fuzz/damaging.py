"""Invalid frames: flipped bits, truncation, wrong lengths, halves of two frames."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random

HEADER_BYTES = 14  # API key, version, correlation id, length of the client id, "fuzz"
LENGTHS = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x00\x0f\xff\xff",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x40",
    b"\x00",
    b"\x7f\xff",
)


def damaged(frame: bytes, corpus: Sequence[bytes], source: Random) -> bytes:
    """The frame after one to three mutations, with its length corrected (mostly)."""
    body = bytearray(frame[4:])
    for _ in range(source.randint(1, 3)):
        body = _mutate(body, corpus, source)
    honest = source.random() < 0.95
    return struct.pack(">i", len(body) if honest else source.randrange(-5, 2 * len(body) + 1)) + bytes(body)


def _mutate(body: bytearray, corpus: Sequence[bytes], source: Random) -> bytearray:
    # The API of this header: mostly unchanged, so that handlers are reached.
    first = 0 if source.random() < 0.05 else min(HEADER_BYTES, len(body))
    position = source.randrange(first, len(body) + 1)
    how = source.randrange(6)
    if how == 0 and position < len(body):
        body[position] ^= 1 << source.randrange(8)
    elif how == 1:
        del body[position:]
    elif how == 2:
        lie = source.choice(LENGTHS)
        body[position : position + len(lie)] = lie
    elif how == 3:
        end = min(len(body), position + source.randrange(64))
        body[position:position] = body[position:end] * source.randint(1, 30)
    elif how == 4 and corpus:
        other = source.choice(corpus)
        body[position:] = other[min(position + 4, len(other)) :][:65536]
    else:
        body[position : position + source.randrange(3)] = source.randbytes(source.randrange(4))
    return body
