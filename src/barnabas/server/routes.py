"""The table of handlers and the routes that are made from it.

A row names an API, the versions that are served and the function that serves them. A route is one version of one
API in use: the compiled decoder and encoder, the function, and what is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from inspect import iscoroutinefunction
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.metrics.requests import RequestMetrics
from barnabas.protocol.api import APIS, ApiKey
from barnabas.protocol.codec import Encoder, decoder, encoder
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.server.dispatch import Request
    from barnabas.server.output import Part

_RESPONSE_START = Struct(">ii")  # the length of the rest, the correlation id

HandlerFunction = Callable[[Any, "Request", Any], Message | Coroutine[Any, Any, Message | None] | None]


class Handler(NamedTuple):
    """One row of the table: an API, the versions that are served, and the function that serves them."""

    request_class: type[Message]
    min_version: int
    max_version: int
    function: HandlerFunction
    advertised_min: int | None = None
    """The minimum that ApiVersions names, where clients must see a lower one than is served (KAFKA-18659)."""


class Route:
    """One version of one API: how to read it, whom to call, how to write the answer, what to count."""

    __slots__ = (
        "api_key", "count", "decode", "encode", "flexible", "function", "handler", "is_coroutine", "name", "observe",
        "response_start", "version",
    )  # fmt: skip

    def __init__(self, handler: Handler, version: int, metrics: RequestMetrics) -> None:
        request_class = handler.request_class
        self.handler = handler
        self.api_key = request_class.api_key
        self.version = version
        self.name = APIS[self.api_key].name
        self.flexible = request_class.is_flexible(version)
        self.decode = decoder(request_class, version)
        self.encode: Encoder[Any] | None = None  # known with the first response
        self.function = handler.function
        self.is_coroutine = iscoroutinefunction(handler.function)
        # Flexible response headers end in tagged fields, except that of ApiVersions (KIP-511).
        has_tags = self.flexible and self.api_key != ApiKey.API_VERSIONS
        self.response_start = bytes(_RESPONSE_START.size + has_tags)
        self.count = metrics.counter(self.name, version)
        self.observe = metrics.times(self.name).observe

    def write(self, correlation_id: int, response: Message) -> Sequence[Part]:
        """Encode a response frame into bytes, with slices of files between them where it has some."""
        encode = self.encode
        if encode is None:
            encode = self.encode = encoder(type(response), self.version)
        start = bytearray(self.response_start)
        parts: list[Part] = []
        rest = encode(response, start, parts)
        if not parts:
            _RESPONSE_START.pack_into(start, 0, len(start) - 4, correlation_id)
            return (start,)
        if rest:
            parts.append(rest)
        _RESPONSE_START.pack_into(start, 0, sum(map(len, parts)) - 4, correlation_id)
        return parts
