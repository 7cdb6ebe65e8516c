"""Streams groups (KIP-1071): the broker sizes an application's internal topics and assigns its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.groups.streams.checks import check_heartbeat
    from barnabas.groups.streams.configured import InternalTopic
    from barnabas.groups.streams.describe import described
    from barnabas.groups.streams.description import check_update
    from barnabas.groups.streams.sizing import StreamsStatus
    from barnabas.groups.streams.topic_creation import StreamsTopics
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "checks": "check_heartbeat",
            "configured": "InternalTopic",
            "describe": "described",
            "description": "check_update",
            "sizing": "StreamsStatus",
            "topic_creation": "StreamsTopics",
        },
    )

__all__ = ["InternalTopic", "StreamsStatus", "StreamsTopics", "check_heartbeat", "check_update", "described"]
