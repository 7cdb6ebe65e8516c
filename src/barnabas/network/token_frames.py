"""SASL tokens without headers, as clients send them after SaslHandshake 0: a length, and the token."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.network.frames import Owner, RequestFrames
from barnabas.protocol.framing import LENGTH_BYTES, decode_length

Take = Callable[[Owner, bytes], None]
"""Takes a token. It must pause the owner: the next token belongs to another step, or is a request again."""


class TokenFrames(RequestFrames[Owner]):
    """Input of a connection that authenticates with bare tokens; tokens may be empty."""

    __slots__ = ("_take",)

    shortest = 0
    _take: Take[Owner]

    @classmethod
    def instead_of(cls, frames: RequestFrames[Owner], take: Take[Owner]) -> TokenFrames[Owner]:
        made = cls(
            frames.handle, frames._shared, frames._memory, frames._address, frames._now, frames._granted
        )
        made._take = take
        made.take_over(frames)
        return made

    def requests_again(self) -> RequestFrames[Owner]:
        """Return frames for requests, which follow the last token."""
        made: RequestFrames[Owner] = RequestFrames(
            self.handle, self._shared, self._memory, self._address, self._now, self._granted
        )
        made.take_over(self)
        return made

    def feed(self, owner: Owner, buffer: memoryview, end: int) -> None:
        position = 0
        while end - position >= LENGTH_BYTES and not self.pauses:
            (length,) = decode_length(buffer, position)
            following = position + LENGTH_BYTES + length
            if not 0 <= length <= self._longest or following > end:
                break
            self._take(owner, bytes(buffer[position + LENGTH_BYTES : following]))
            self.requests += 1
            position = following
        if position < end:
            self._keep(buffer, position, end)

    def _hand_out(self, owner: Owner, frame: memoryview, length: int) -> None:
        self._take(owner, bytes(frame[LENGTH_BYTES:length]))
