"""What is said about those who do not speak Kafka's protocol."""

from __future__ import annotations

import struct

import pytest

from barnabas.server.strangers import refusal


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (b"\x16\x03\x01\x02", "It looks like TLS"),
        (b"GET ", "barnabas.metrics.listen"),
        (b"POST", "It looks like HTTP"),
        (b"\x7f\xff\xff\xff", "10 to 100 (socket.request.max.bytes) are allowed"),
        (b"\xff\xff\xff\xff", "a request of -1 bytes is refused"),
    ],
)
def test_a_wrong_length_says_what_the_client_probably_speaks(first: bytes, words: str) -> None:
    (length,) = struct.unpack(">i", first)
    assert words in refusal(length, 10, 100)
