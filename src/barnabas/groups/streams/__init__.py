"""Streams groups (KIP-1071): the broker sizes an application's internal topics and assigns its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.groups.streams.checks import check_heartbeat as check_heartbeat
    from barnabas.groups.streams.configured import InternalTopic as InternalTopic
    from barnabas.groups.streams.describe import described as described
    from barnabas.groups.streams.description import check_update as check_update
    from barnabas.groups.streams.heartbeats import HeartbeatResult as HeartbeatResult
    from barnabas.groups.streams.sizing import StreamsStatus as StreamsStatus
    from barnabas.groups.streams.topic_creation import StreamsTopics as StreamsTopics
else:
    __getattr__ = lazy_exports(__name__)
