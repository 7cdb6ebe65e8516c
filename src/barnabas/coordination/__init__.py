"""Coordinator runtime: state machines backed by an internal topic, shared by groups, transactions and share.

`CoordinatorRuntime` keeps one `Shard` per led partition: it replays the log on election, appends
`CoordinatorRecord`s, and completes requests once they are durable. `Channel` sends a `CoordinatorRequest` to the
broker that leads a partition or coordinates a key, with retries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.coordination.channel import (
        NO_LEADER,
        RETRIABLE_ERRORS,
        A,
        Channel,
        CoordinatorRequest,
        Done,
        Retry,
    )
    from barnabas.coordination.deadlines import Deadlines
    from barnabas.coordination.runtime import ActiveShard, CoordinatorRuntime, RuntimeEnvironment
    from barnabas.coordination.shard import CoordinatorRecord, Effect, ProducerIdAndEpoch, coordinator_error
    from barnabas.coordination.tasks import Tasks, answer_of, ask_each, pause
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "channel": "A Channel CoordinatorRequest Done NO_LEADER RETRIABLE_ERRORS Retry",
            "deadlines": "Deadlines",
            "runtime": "ActiveShard CoordinatorRuntime RuntimeEnvironment",
            "shard": "CoordinatorRecord Effect ProducerIdAndEpoch coordinator_error",
            "tasks": "Tasks answer_of ask_each pause",
        },
    )

__all__ = [
    "NO_LEADER",
    "RETRIABLE_ERRORS",
    "A",
    "ActiveShard",
    "Channel",
    "CoordinatorRecord",
    "CoordinatorRequest",
    "CoordinatorRuntime",
    "Deadlines",
    "Done",
    "Effect",
    "ProducerIdAndEpoch",
    "Retry",
    "RuntimeEnvironment",
    "Tasks",
    "answer_of",
    "ask_each",
    "coordinator_error",
    "pause",
]
