"""Clusters of real processes with real clients under faults: `make chaos`, and a selection in `make test`.

links.py      TCP proxies between brokers and to ZooKeeper, whose links can be cut, slow, or frozen one way or both
store.py      the object store of a tiered cluster, which can be killed, paused and slow
tiers.py      what must hold of it
waiting.py    waiting with a deadline
disks.py      a small disk that can be filled
cluster.py    ZooKeeper and brokers as processes that can be killed, paused and restarted
security.py   PLAINTEXT, or SASL_SSL everywhere but to ZooKeeper
loads.py      producers that remember what was acknowledged, and how long they waited
librdkafka.py what librdkafka writes, through confluent-kafka
java.py       what Kafka's own clients write and read, as processes
moves.py      a partition that moves
faults.py     what is done to the cluster
power.py      what a power cut does to files
checks.py     nothing lost, doubled, out of order or visible that was aborted; replicas byte for byte the same
matrix.py     faults x loads, one run each, as a table
"""
