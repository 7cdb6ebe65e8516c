"""File descriptors: connections and segments share what the process may open.

A client that opens connections until none is left must not keep the broker from opening its own files.
"""

from __future__ import annotations

import resource

SPARE = 64  # listeners, the metadata log, checkpoints and whatever else is open for a moment
ENOUGH = 65_536  # 10,000 connections, the segments, and some; macOS refuses more than it has
MAX_SEGMENTS = 16384  # open indexes take memory too: a few KB each, megabytes for the largest


def raise_limit() -> None:
    """Use what the system allows, as Java does: shells begin with 1,024, or 256 on macOS."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    for limit in (wanted, min(wanted, 10_240)):  # OPEN_MAX of macOS, which says that it has no limit
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (OSError, ValueError):
            continue
        return


def room_for_segments() -> int:
    """Half of the files that this process may open."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return MAX_SEGMENTS
    return min(max(allowed // 2, 64), MAX_SEGMENTS)


def room_for_connections() -> int:
    """How many connections may be open beside everything else."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        allowed = ENOUGH
    return max(allowed - room_for_segments() - SPARE, 16)
