"""Partitions of this broker as leader and follower: ISR, high watermark, delayed operations and durability.

Entry points: `manager.ReplicaManager` (all partitions, kept in step with the metadata image), `partition.Partition`,
`durability.Durability` (acks=all), `delayed.DelayedOperation` and `fetch_sessions.FetchSessions`. `fetcher` follows one
leader, `follower` applies its responses, `flusher` groups fsyncs and `isr` sends AlterPartition.
"""
