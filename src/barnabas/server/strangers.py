"""Who has come to the wrong door: what the first bytes of a connection say when they are no length of a request."""

from __future__ import annotations

_TLS_HANDSHAKE = 0x16
_TLS_MAJOR_VERSION = 0x03
_HTTP = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"CONN", b"PATC", b"PRI ")


def refusal(length: int, shortest: int, longest: int, *, is_stranger: bool = False) -> str:
    """Why a request that announces this length is not read; a stranger has not authenticated yet."""
    limit = (
        "sasl.server.max.receive.size, until it has authenticated"
        if is_stranger
        else "socket.request.max.bytes"
    )
    text = f"a request of {length} bytes is refused: {shortest} to {longest} ({limit}) are allowed"
    hint = _hint(length.to_bytes(4, "big", signed=True))
    return f"{text}. {hint}" if hint else text


def _hint(first: bytes) -> str:
    if first[0] == _TLS_HANDSHAKE and first[1] == _TLS_MAJOR_VERSION:
        return (
            "It looks like TLS: this listener speaks PLAINTEXT, set security.protocol=PLAINTEXT in the client"
        )
    if first in _HTTP:
        return "It looks like HTTP: metrics and health have a port of their own (barnabas.metrics.listen)"
    return ""
