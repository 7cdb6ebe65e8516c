"""Lines of standard input or files, read without blocking the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import BinaryIO

CHUNK = 64 * 1024
CHUNKS_AHEAD = 16  # read-ahead limit


async def read_chunks(stream: BinaryIO) -> AsyncIterator[bytes]:
    """Read a stream as data arrives: a line at a time from a terminal, large chunks from a file.

    The thread is a daemon: a read from a terminal cannot be cancelled, and Ctrl-C must not wait for it.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | Exception] = asyncio.Queue(CHUNKS_AHEAD)

    def read() -> None:
        try:
            while chunk := _read_some(stream):
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
            asyncio.run_coroutine_threadsafe(chunks.put(b""), loop).result()
        except RuntimeError:
            return  # the loop is closed: the command has ended
        except Exception as error:
            asyncio.run_coroutine_threadsafe(chunks.put(error), loop).result()

    threading.Thread(target=read, name="reads lines", daemon=True).start()
    while chunk := await chunks.get():
        if isinstance(chunk, Exception):
            raise chunk
        yield chunk


async def read_lines(stream: BinaryIO) -> AsyncIterator[bytes]:
    """Lines without their ends; the last one counts even if it has none."""
    rest = b""
    async for chunk in read_chunks(stream):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest


def _read_some(stream: BinaryIO) -> bytes:
    read_available = getattr(stream, "read1", stream.read)
    chunk: bytes = read_available(CHUNK)
    return chunk
