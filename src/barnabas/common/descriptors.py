"""File descriptor limits, divided between connections and segments.

Clients that open too many connections must not prevent the broker from opening its files.
"""

from __future__ import annotations

import resource

SPARE = 64  # listeners, the metadata log, checkpoints and temporary files
ENOUGH = 65_536  # 10,000 connections, the segments and a reserve; macOS rejects values above its limit
MAX_SEGMENTS = 16384  # open indexes take memory too: a few KB each, megabytes for the largest


def raise_limit() -> None:
    """Raise the soft limit to the hard limit, as Java does: shells start with 1,024, or 256 on macOS."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft_limit = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= soft_limit:
        return
    for limit in (soft_limit, min(soft_limit, 10_240)):  # OPEN_MAX of macOS, which reports no limit
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (OSError, ValueError):
            continue
        return


def room_for_segments() -> int:
    """Number of descriptors for segments: half of the limit."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return MAX_SEGMENTS
    return min(max(allowed // 2, 64), MAX_SEGMENTS)


def room_for_connections() -> int:
    """Number of descriptors left for connections."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        allowed = ENOUGH
    return max(allowed - room_for_segments() - SPARE, 16)
