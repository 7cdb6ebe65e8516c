"""Page cache residency of parts of files. A thread reads cold parts first, so that the loop never blocks.

`sendfile` of a page that is not in memory blocks the one thread that serves all clients. So before a slice is
sent, one byte in every 128 KB is read with RWF_NOWAIT, which fails instead of waiting for the disk. When one
of these reads fails, or the system does not support it, a thread reads the part into the page cache.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from barnabas.common.files import NO_DESCRIPTOR

# The kernel's usual read-ahead, so that one page represents its neighbours.
PROBE_DISTANCE: Final = 128 * 1024

WARMED_AT_ONCE: Final = 1 << 20
TAIL_BYTES: Final = 1 << 20

_NOWAIT: Final = getattr(os, "RWF_NOWAIT", None)
_probe: Final = [bytearray(1)]


class Warmer:
    """A few threads that read parts of files into the page cache, outside of the GIL."""

    def __init__(self, threads: int = 4) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="barnabas-cold-read")
        self.submit = self._pool.submit

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def is_cached(fd: int, position: int, count: int, file_size: int = 0) -> bool:
    """Return whether sending this part would not wait for the disk; False if unknown.

    Without support by the system (macOS; tmpfs), the last part of a file being written counts as cached. A
    MemoryFile, which has no descriptor, never does.
    """
    if _NOWAIT is None:
        return fd != NO_DESCRIPTOR and _is_tail(position, file_size)
    try:
        last = position + count - 1
        for offset in (*range(position, last, PROBE_DISTANCE), last):
            os.preadv(fd, _probe, offset, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError:  # EOPNOTSUPP: not supported by this file system
        return fd != NO_DESCRIPTOR and _is_tail(position, file_size)
    return True


def read_if_cached(fd: int, position: int, count: int, file_size: int = 0) -> bytearray | bytes | None:
    """Return the bytes if all of them are in memory; None when reading them might block."""
    if _NOWAIT is not None:
        data = bytearray(count)
        try:
            return data if os.preadv(fd, [data], position, _NOWAIT) == count else None
        except BlockingIOError:
            return None
        except OSError:
            pass
    is_tail = fd != NO_DESCRIPTOR and _is_tail(position, file_size)
    return os.pread(fd, count, position) if is_tail else None


def _is_tail(position: int, file_size: int) -> bool:
    return position + TAIL_BYTES >= file_size > 0


def warm(fd: int, position: int, count: int) -> None:
    """Read a part of a file into the page cache. Runs in a thread."""
    os.pread(fd, count, position)
