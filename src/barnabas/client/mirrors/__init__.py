"""Administration of mirror topics: status, pause, resume, promotion and failover."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.mirrors.control import (
        MirrorInfo,
        failover,
        mirrors_of,
        pause,
        promote,
        resume,
        reverse,
    )
    from barnabas.client.mirrors.requests import (
        LinkName,
        act_on_mirrors,
        alter_mirrors,
        describe_mirrors,
        fail_partitions,
        has_mirrors,
        raise_leader_epochs,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "control": "MirrorInfo failover mirrors_of pause promote resume reverse",
            "requests": (
                "LinkName act_on_mirrors alter_mirrors describe_mirrors fail_partitions has_mirrors "
                "raise_leader_epochs"
            ),
        },
    )

__all__ = [
    "LinkName",
    "MirrorInfo",
    "act_on_mirrors",
    "alter_mirrors",
    "describe_mirrors",
    "fail_partitions",
    "failover",
    "has_mirrors",
    "mirrors_of",
    "pause",
    "promote",
    "raise_leader_epochs",
    "resume",
    "reverse",
]
