"""What the cluster knows: the metadata image, the log of its changes, and the way to other brokers.

image.py   the immutable snapshot: brokers, topics, partitions, configs, features
deltas.py  the changes, and `apply(image, deltas) -> image`
names.py   which topic names are legal, which collide, which are internal
frames.py  how one entry of the metadata log looks in a file
store.py   MetadataStore: the log with one writer; over a file, and an in-memory twin
turns.py   one writer at a time, each to its end
peers.py   requests to other brokers
adoption.py, kraft.py  topics of a data folder that Apache Kafka wrote
"""
