"""Coordinator runtime: state machines backed by an internal topic, shared by groups, transactions and share.

`CoordinatorRuntime` keeps one `Shard` per led partition: it replays the log on election, appends the records of a
`CoordinatorResult`, and completes requests once they are durable. `Channel` sends a `CoordinatorRequest` to the
broker that leads a partition or coordinates a key, with retries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.coordination.channel import NO_LEADER as NO_LEADER
    from barnabas.coordination.channel import RETRIABLE_ERRORS as RETRIABLE_ERRORS
    from barnabas.coordination.channel import A as A
    from barnabas.coordination.channel import Channel as Channel
    from barnabas.coordination.channel import CoordinatorRequest as CoordinatorRequest
    from barnabas.coordination.channel import Retry as Retry
    from barnabas.coordination.deadlines import Deadlines as Deadlines
    from barnabas.coordination.runtime import CoordinatorRuntime as CoordinatorRuntime
    from barnabas.coordination.runtime import RuntimeEnvironment as RuntimeEnvironment
    from barnabas.coordination.shard import PARKED as PARKED
    from barnabas.coordination.shard import CoordinatorRecord as CoordinatorRecord
    from barnabas.coordination.shard import CoordinatorResult as CoordinatorResult
    from barnabas.coordination.shard import Done as Done
    from barnabas.coordination.shard import Effect as Effect
    from barnabas.coordination.shard import ProducerIdAndEpoch as ProducerIdAndEpoch
    from barnabas.coordination.shard import Reply as Reply
    from barnabas.coordination.shard import coordinator_error as coordinator_error
    from barnabas.coordination.shard import ignore as ignore
    from barnabas.coordination.shard import same_error as same_error
    from barnabas.coordination.tasks import Tasks as Tasks
    from barnabas.coordination.tasks import answer_of as answer_of
    from barnabas.coordination.tasks import ask_each as ask_each
    from barnabas.coordination.tasks import pause as pause
else:
    __getattr__ = lazy_exports(__name__)
