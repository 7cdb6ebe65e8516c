"""The table of handlers and the routes built from it.

A row has an API, its supported versions and its handler function. A route is one version of one API in use:
the compiled decoder and encoder, the function, and the metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from barnabas.common.files import FileSlice
from barnabas.metrics import RequestMetrics
from barnabas.network.requests.rules import ApiPermissions, MutationCount, QuotaBytes
from barnabas.protocol.api import APIS
from barnabas.protocol.codec import Encoder, decoder, decoder_in_steps, encoder, encoder_in_steps
from barnabas.protocol.framing import RESPONSE_START, response_header_version
from barnabas.protocol.schema import Message, Struct

if TYPE_CHECKING:
    from barnabas.network.connection import Connection
    from barnabas.network.output import Part
    from barnabas.network.requests.request import RequestDispatcher

# Up to here a request is decoded and handled in place, in one go: a thousand elements take some milliseconds.
ELEMENTS_AT_ONCE: Final = 1_000
BYTES_AT_ONCE: Final = 1 << 20

NO_BOUND: Final = 1 << 62

_frame: Final = RESPONSE_START.pack_into


M = TypeVar("M")

Result: TypeAlias = "M | Coroutine[Any, Any, M | None] | None"
"""Returned by a handler: the response, or a coroutine that returns it, or None if it calls `respond`."""

HandlerFunction = Callable[..., "Result[Message]"]
"""Takes the broker, a `Request` and its message."""


class FastPath(Protocol):
    """Serves requests that repeat an earlier one without decoding them.

    Such requests have the same head; a connection remembers the length of its last one.
    """

    def serve(
        self,
        dispatcher: RequestDispatcher,
        connection: Connection,
        correlation_id: int,
        buffer: memoryview,
        body: int,
        end: int,
    ) -> bytearray | None:
        """Return the response, without its correlation id; empty if a `Request` was settled instead, which is
        answered already or later; None without side effects.
        """

    def learn(self, message: Any, buffer: memoryview, body: int, end: int, last: int) -> int:
        """Remember the head of a decoded request; return its length, 0 if it has none. `last` is what was
        returned for the connection before.
        """


class Handler(NamedTuple):
    """One row of the table: an API, its supported versions, and its handler function."""

    request_class: type[Message]
    min_version: int
    max_version: int
    function: HandlerFunction
    advertised_min: int | None = None
    """Minimum version in ApiVersions, where clients must see a lower one than is supported (KAFKA-18659)."""
    in_turns: HandlerFunction | None = None
    """Serves requests of many elements in slices (`network/requests/request_parts.py`)."""
    brokers_only_since: int | None = None
    """First version that only brokers send to each other (`BrokersOnly`); 0 for a whole API."""
    is_forwarded: bool = False
    """Runs on the controller: other brokers forward it in an Envelope (`handlers/forwarding.py`)."""
    rule: ApiPermissions | None = None
    """Operations and resources that it needs (`handlers/authorization.py`)."""
    mutations: tuple[MutationCount, ...] = ()
    carried: QuotaBytes = QuotaBytes()
    shortcut: Callable[[Route], FastPath | None] | None = None
    """Fast path of one version; used without authorizer and quotas."""
    bare: HandlerFunction | None = None
    """The function without chunking, and the wrapper that adds it: stages are inserted in between, for each
    part.
    """
    chunked: Callable[[HandlerFunction], tuple[HandlerFunction, HandlerFunction]] | None = None

    def is_brokers_only(self, version: int) -> bool:
        return self.brokers_only_since is not None and version >= self.brokers_only_since


class Route:
    """One version of one API: decoder, handler, encoder, metrics."""

    __slots__ = (
        "api_key", "bytes_at_once", "count", "decode", "encode", "flexible", "function", "handler", "in_turns",
        "is_coroutine", "name", "observe", "response_start", "shortcut", "version",
    )  # fmt: skip

    def __init__(
        self,
        handler: Handler,
        version: int,
        metrics: RequestMetrics,
        functions: tuple[HandlerFunction, HandlerFunction] | None = None,
    ) -> None:
        """`functions`: with stages, for most requests, and for those of many elements (`stages.compiled`)."""
        request_class = handler.request_class
        self.handler = handler
        self.api_key = request_class.api_key
        self.version = version
        self.name = APIS[self.api_key].name
        self.flexible = request_class.is_flexible(version)
        self.decode = decoder(request_class, version)
        self.encode: Encoder[Any] | None = None  # known with the first response
        self.function, self.in_turns = functions or (handler.function, handler.in_turns or handler.function)
        self.is_coroutine = iscoroutinefunction(handler.function)
        # Decoding does not copy records, so only messages without records take time by their length.
        self.bytes_at_once = NO_BOUND if has_records(request_class) else BYTES_AT_ONCE
        # From version 1 on, the header ends in tagged fields: there are none.
        self.response_start = bytes(RESPONSE_START.size + response_header_version(self.api_key, version))
        self.count = metrics.counter(self.name, version)
        self.observe = metrics.times(self.name).observe
        self.shortcut: FastPath | None = None
        if handler.shortcut is not None and self.function is handler.function:  # no stages around it
            self.shortcut = handler.shortcut(self)

    def write(self, correlation_id: int, response: Message) -> Sequence[Part]:
        """Encode a response frame into bytes, with slices of files in between."""
        encode = self.encode
        if encode is None:
            encode = self.encode = encoder(type(response), self.version)
        start = bytearray(self.response_start)
        parts: list[Part] = []
        rest = encode(response, start, parts)
        if parts:
            return self._framed(correlation_id, start, parts, rest)
        _frame(start, 0, len(start) - 4, correlation_id)
        return (start,)

    def write_in_steps(self, correlation_id: int, response: Message) -> Generator[None, None, Sequence[Part]]:
        """The same for a response of many elements."""
        start = bytearray(self.response_start)
        parts: list[Part] = []
        rest = yield from encoder_in_steps(type(response), self.version)(response, start, parts)
        return self._framed(correlation_id, start, parts, rest)

    def decode_in_steps(self, body: memoryview, elements: int) -> Generator[None, None, Message]:
        """Decode a request of at most `elements` elements."""
        decode = decoder_in_steps(self.handler.request_class, self.version)
        message: Message
        message, _ = yield from decode(body, 0, len(body), elements)
        return message

    @staticmethod
    def _framed(correlation_id: int, start: bytearray, parts: list[Part], rest: bytearray) -> Sequence[Part]:
        if not parts:
            _frame(start, 0, len(start) - 4, correlation_id)
            return (start,)
        if rest:
            parts.append(rest)
        size = 0
        for part in parts:
            size += part.length if type(part) is FileSlice else len(part)  # without the frame of its __len__
        _frame(start, 0, size - 4, correlation_id)
        return parts


def has_records(cls: type[Struct]) -> bool:
    """Return whether a message has record batches, which have separate limits."""
    return any(
        field.wire == "records" or (isinstance(field.element, type) and has_records(field.element))
        for field in cls.FIELDS
    )
