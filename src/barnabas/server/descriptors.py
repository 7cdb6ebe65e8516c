"""File descriptors: connections and segments share what the process may open.

A client that opens connections until none is left must not keep the broker from opening its own files.
"""

from __future__ import annotations

import resource

from barnabas.log.open_segments import sensible_limit

SPARE = 64  # listeners, the metadata log, checkpoints and whatever else is open for a moment
ENOUGH = 65_536  # 10,000 connections, the segments, and some; macOS refuses more than it has


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


def room_for_connections() -> int:
    """How many connections may be open beside everything else."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        allowed = ENOUGH
    return max(allowed - sensible_limit() - SPARE, 16)
