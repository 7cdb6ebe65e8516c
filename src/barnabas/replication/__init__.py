"""Partitions as this broker sees them: leadership, in-sync replicas, high watermark, and who waits for what.

partition.py  one partition, led or followed here: the rules of what is committed
watchers.py   who waits for a partition, and is notified of what
progress.py   what a leader knows of each follower, and what a partition needs to know of the cluster
manager.py    all partitions of this broker, kept in step with the metadata image
isr.py        asking the controller for another ISR
followed.py   a partition that is followed, and how it is named in a fetch
fetcher.py    following one leader: one fetch after the other, all partitions in one session
fetchers.py   which leader each partition follows
follower.py   what a follower does with an answer: append, or cut what the leader never had
throttle.py   limits on the bytes of replication
flusher.py    group fsync
safety.py     when a record is as safe as acks=all promises
delayed.py    a request that waits: Kafka's delayed operation
"""
