"""Encodes and decodes messages with code compiled for (message class, version) on first use."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, TypeVar

from barnabas.protocol.decoder_source import DecoderSource
from barnabas.protocol.encoder_source import EncoderSource
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import EncodeError, ProtocolError, UnknownVersionError

M = TypeVar("M", bound=Message)

# (buffer, position, limit, budget of elements unless MAX_ELEMENTS) -> (message, end position)
Decoder = Callable[..., tuple[M, int]]

# (message, output so far, finished parts) -> the buffer with the rest of the output
Encoder = Callable[[M, bytearray, list[Any]], bytearray]

# The same as generators that return the same values
DecoderInSteps = Callable[..., Generator[None, None, tuple[M, int]]]
EncoderInSteps = Callable[[M, bytearray, list[Any]], Generator[None, None, bytearray]]


def decoder(cls: type[M], version: int) -> Decoder[M]:
    """Return the compiled decoder of a version, for callers that cache it."""
    try:
        return cls.decoders[version]
    except KeyError:
        function: Decoder[M] = _compile(cls, version, "decode")
        cls.decoders[version] = function
        return function


def encoder(cls: type[M], version: int) -> Encoder[M]:
    """Return the compiled encoder of a version, for callers that cache it."""
    try:
        return cls.encoders[version]
    except KeyError:
        function: Encoder[M] = _compile(cls, version, "encode")
        cls.encoders[version] = function
        return function


@cache
def decoder_in_steps(cls: type[M], version: int) -> DecoderInSteps[M]:
    """Return the decoder of a version as a generator, for messages of many elements."""
    function: DecoderInSteps[M] = _compile(cls, version, "decode", in_steps=True)
    return function


@cache
def encoder_in_steps(cls: type[M], version: int) -> EncoderInSteps[M]:
    """Return the encoder of a version as a generator, for messages of many elements."""
    function: EncoderInSteps[M] = _compile(cls, version, "encode", in_steps=True)
    return function


def decode(cls: type[M], version: int, buffer: Any, position: int = 0) -> tuple[M, int]:
    """Decode a message and return it with its end position.

    `records` fields of the result are views into the buffer, and are valid until it is reused.
    """
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    return decoder(cls, version)(view, position, len(view))


def decode_whole(cls: type[M], version: int, buffer: Any, position: int = 0) -> M:
    """Decode a message that must fill the rest of the buffer."""
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    size = len(view)
    message, end = decoder(cls, version)(view, position, size)
    if end != size:
        raise ProtocolError(f"{size - end} bytes follow {cls.NAME} version {version}")
    return message


def encode(message: Message, version: int) -> bytes:
    """Encode a message whose records, if it has any, are bytes."""
    parts = encode_parts(message, version)
    if not all(isinstance(part, (bytes, bytearray)) for part in parts):
        raise EncodeError(f"{message.NAME} holds records that are not bytes: use encode_parts")
    return b"".join(parts)


def encode_parts(message: Message, version: int) -> list[Any]:
    """Encode a message into parts: `bytes`, and `records` values that are not bytes as they are."""
    parts: list[Any] = []
    parts.append(encoder(type(message), version)(message, bytearray(), parts))
    return finished(parts)


def finished(parts: list[Any]) -> list[Any]:
    """Turn the buffers among an encoder's parts into bytes and leave out what is empty."""
    return [bytes(part) if type(part) is bytearray else part for part in parts if len(part)]


def check_version(cls: type[Message], version: int) -> None:
    """Refuse a version outside the declared range."""
    if not cls.min_version <= version <= cls.max_version:
        raise UnknownVersionError(
            f"{cls.NAME} has versions {cls.min_version} to {cls.max_version}, not {version}"
        )


def _compile(cls: type[Message], version: int, name: str, *, in_steps: bool = False) -> Any:
    check_version(cls, version)
    source = (DecoderSource if name == "decode" else EncoderSource)(cls, version, in_steps=in_steps)
    file_name = f"<{name} {cls.__name__} version {version}{' in steps' if in_steps else ''}>"
    linecache.cache[file_name] = (len(source.text), None, source.text.splitlines(keepends=True), file_name)
    exec(compile(source.text, file_name, "exec"), source.names)  # generated from our own declarations
    return source.names[name]
