"""The coordinator runtime: state machines backed by an internal topic, shared by groups, transactions and
share.

`CoordinatorRuntime` keeps one `Shard` per led partition: it replays the log on election, appends
`CoordinatorRecord`s, and completes requests once they are durable. `Channel` sends a `CoordinatorRequest` to
the
broker that leads a partition or coordinates a key, with retries.
"""
