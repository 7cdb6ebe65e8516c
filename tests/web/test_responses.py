"""Responses as ASGI messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from barnabas.web.asgi import CHUNK_BYTES, ResponseWriter

Message = MutableMapping[str, Any]


def sent(
    write: Callable[[ResponseWriter], Awaitable[None]], *, is_head: bool = False
) -> tuple[Message, list[Message]]:
    """The start of a response, and its body."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    async def scenario() -> None:
        response = ResponseWriter(send, [("x-common", "1")], is_head=is_head)
        assert not response.started
        response.extra_headers.append(("set-cookie", "a=b"))
        await write(response)
        assert response.started

    asyncio.run(scenario())
    start, *body = messages
    assert start["type"] == "http.response.start"
    assert {message["type"] for message in body} == {"http.response.body"}
    assert [message["more_body"] for message in body] == [True] * (len(body) - 1) + [False]
    return start, body


def test_a_response_has_its_own_the_common_and_the_extra_headers() -> None:
    start, body = sent(lambda response: response.send(200, "text/plain", b"abc", [("allow", "GET")]))
    assert start["status"] == 200
    assert start["headers"] == [
        (b"content-type", b"text/plain"),
        (b"content-length", b"3"),
        (b"allow", b"GET"),
        (b"x-common", b"1"),
        (b"set-cookie", b"a=b"),
    ]
    assert [message["body"] for message in body] == [b"abc"]


def test_an_empty_body_is_one_message() -> None:
    _, body = sent(lambda response: response.send(204, "text/plain", b""))
    assert [message["body"] for message in body] == [b""]


def test_a_large_body_is_sent_in_chunks() -> None:
    content = bytes(CHUNK_BYTES) + b"end"
    _, body = sent(lambda response: response.send(200, "text/plain", content))
    assert [len(message["body"]) for message in body] == [CHUNK_BYTES, 3]
    exact = sent(lambda response: response.send(200, "text/plain", bytes(CHUNK_BYTES)))[1]
    assert [len(message["body"]) for message in exact] == [CHUNK_BYTES]


def test_a_response_to_head_has_the_length_and_no_body() -> None:
    start, body = sent(lambda response: response.send(200, "text/plain", b"abc"), is_head=True)
    assert (b"content-length", b"3") in start["headers"]
    assert [message["body"] for message in body] == [b""]


def test_a_redirect_names_the_location() -> None:
    start, body = sent(lambda response: response.redirect("/login"))
    assert (start["status"], start["headers"][0]) == (303, (b"location", b"/login"))
    assert [message["body"] for message in body] == [b""]


def test_a_value_cannot_inject_a_header() -> None:
    start, _ = sent(lambda response: response.redirect("/a\r\nset-cookie: c=d"))
    assert start["headers"][0] == (b"location", b"/aset-cookie: c=d")
