"""Input of unauthenticated clients: requests of every API, wrong logins, or none.

Every conversation ends with a question that only a client who has logged in may ask. The broker may answer what comes
before that, and must close the connection in the end.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from barnabas.handlers.table import HANDLERS
from barnabas.network.requests.stages import BEFORE_AUTHENTICATION
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.messages.metadata import ApiVersionsRequest, MetadataRequest
from barnabas.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.protocol.schema import Message
from tests.fuzz import extremes
from tests.fuzz.damaging import damaged
from tests.fuzz.driving import Talk
from tests.fuzz.generating import Generator
from tests.fuzz.judging import Failure
from tests.fuzz.variants import MECHANISMS, PASSWORD, USER

MAX_BEFORE = 512 * 1024  # bytes of a frame
PROBE = 0x70000001  # the correlation id of the last question
PROBE_FRAME = b"".join(encode_request(RequestHeader(3, 9, PROBE, "fuzz"), MetadataRequest()))
TIMEOUT_SECONDS = 10.0  # for the end of the connection
_OPEN_HANDLERS = [row for row in HANDLERS if row.request_class.api_key in BEFORE_AUTHENTICATION]
_NAMES = (
    USER,
    "",
    "bob",
    "admin",
    "=2C",
    "=",
    "a=3Db",
    "\u00ad",
    "\u0221",
    "é" * 300,
    "a" * 70_000,
    "User:alice",
)
_PASSWORDS = ("", "x", PASSWORD[:-1], PASSWORD + "x", PASSWORD.upper(), "x" * 70_000, "\ud7ff", "*")


class Conversation(NamedTuple):
    frames: list[bytes]
    ends: bool = True
    """Must the broker close the connection? It waits for the rest of a frame that is not complete."""


class Unauthenticated:
    def __init__(self, source: Random, generator: Generator) -> None:
        self._source = source
        self._generator = generator
        self._kinds: Sequence[tuple[Callable[[], Conversation], float]] = (
            (self._any_request, 2.0),
            (self._open_requests, 2.0),
            (self._damaged_requests, 2.0),
            (self._tokens, 3.0),
            (self._raw_tokens, 2.0),
            (self._lengths, 0.5),
            (self._unfinished, 0.5),
        )
        self._numbers = 0

    def conversation(self) -> Conversation:
        kinds, weights = zip(*self._kinds, strict=True)
        made: Conversation = self._source.choices(kinds, weights)[0]()
        return made

    def _number(self) -> int:
        self._numbers = (self._numbers + 1) % 1_000_000
        return self._numbers

    def _frame(self, message: Message, version: int) -> bytes:
        return b"".join(
            encode_request(RequestHeader(message.api_key, version, self._number(), "fuzz"), message)
        )

    def _probed(self, frames: list[bytes]) -> Conversation:
        return Conversation([*frames, PROBE_FRAME])

    def _any_request(self) -> Conversation:
        count = self._source.randint(1, 4)
        return self._probed([self._generator.frame(self._number()) for _ in range(count)])

    def _open(self) -> bytes:
        return self._generator.frame(self._number(), self._source.choice(_OPEN_HANDLERS))

    def _open_requests(self) -> Conversation:
        return self._probed([self._open() for _ in range(self._source.randint(1, 12))])

    def _damaged_requests(self) -> Conversation:
        frames = [damaged(self._open(), [self._open()], self._source) for _ in range(3)]
        honest = [frame for frame in frames if struct.unpack_from(">i", frame)[0] == len(frame) - 4]
        return self._probed(honest)

    # -- logins -------------------------------------------------------------------------------------

    def _tokens(self) -> Conversation:
        frames, mechanism = self._versions(), self._source.choice(MECHANISMS)
        frames.append(self._frame(SaslHandshakeRequest(mechanism), 1))
        for step in range(self._source.randint(1, 3)):
            request = SaslAuthenticateRequest(self._token(mechanism, step))
            frames.append(self._frame(request, self._source.randint(0, 2)))
        return self._probed(frames)

    def _raw_tokens(self) -> Conversation:
        frames, mechanism = self._versions(), self._source.choice(MECHANISMS)
        frames.append(self._frame(SaslHandshakeRequest(mechanism), 0))
        for step in range(self._source.randint(1, 3)):
            token = self._token(mechanism, step)
            frames.append(struct.pack(">i", len(token)) + token)
        return self._probed(frames)

    def _versions(self) -> list[bytes]:
        count = self._source.choice((0, 0, 1, 1, 2))
        return [self._frame(ApiVersionsRequest("fuzz", "1"), 3) for _ in range(count)]

    def _token(self, mechanism: str, step: int) -> bytes:
        how = self._source.random()
        if how < 0.15:
            return self._source.choice(extremes.BYTES)
        good = self._plain() if mechanism == "PLAIN" else self._scram(step)
        if how < 0.5:
            return good
        frame = struct.pack(">i", len(good)) + good
        return damaged(frame, [frame], self._source)[4:]

    def _plain(self) -> bytes:
        """Never a valid pair of name and password; sometimes another authorization id, or extra parts."""
        choice = self._source.choice
        parts = [choice(("", "", USER, "bob")), choice(_NAMES), choice(_PASSWORDS)]
        parts += [choice(_PASSWORDS)[:200]] * choice((0, 0, 0, 1, 5000))  # a megabyte at most
        return "\0".join(parts).encode()

    def _scram(self, step: int) -> bytes:
        choice = self._source.choice
        nonce = choice(("abc", "", "a" * 100_000, "a,b", "é", "\x7f", "rOprNGfwEbeRWgbNEkqO"))
        if step == 0:
            header = choice(
                ("n,,", "n,,", "n,,", "y,,", "p=tls-unique,,", f"n,a={USER},", "n,a=bob,", "", "n,a==,")
            )
            extension = choice(("", "", ",tokenauth=true", ",m=x", ",x=" + "y" * 50_000, "," * 5000))
            return f"{header}n={choice(_NAMES)},r={nonce}{extension}".encode()
        proof = choice(("", "AAAA", base64.b64encode(bytes(32)).decode(), "A" * 100_000, "====", "é"))
        return f"c={choice(('biws', '', 'eSws', 'x' * 50_000))},r={nonce},p={proof}".encode()

    # -- lengths ------------------------------------------------------------------------------------

    def _lengths(self) -> Conversation:
        """Frames longer than allowed before authentication, or of impossible length."""
        longer = (MAX_BEFORE + 1, 1 << 20, 100 << 20, (1 << 31) - 1, -1, -(1 << 31), 0, 3)
        return Conversation([struct.pack(">i", self._source.choice(longer)) + self._open()[4:]])

    def _unfinished(self) -> Conversation:
        """As much as may be announced, and less of it than that."""
        body = self._open()[4:]
        announced = self._source.choice((MAX_BEFORE, len(body) + 1))
        frame = struct.pack(">i", announced) + body
        return Conversation([frame[: announced + 3]], ends=False)


def judged(conversation: Conversation, talk: Talk) -> Failure | None:
    """True if an unauthenticated client was served or left waiting."""
    sent = b"".join(conversation.frames)
    if any(answer[:4] == PROBE.to_bytes(4, "big") for answer in talk.answers):
        return Failure("a stranger", "served", "was served although it has not authenticated", sent)
    if conversation.ends and not talk.closed:
        return Failure(
            "a stranger", "silent", f"got {len(talk.answers)} answers and is still connected", sent
        )
    return None
