"""Tiered storage put together: the store, who reads it, and a writer for each partition that this broker leads.

tiering     all remote parts of a broker
untiered    the same of a broker without a store
led_log     the log of a led partition, as its writer sees it
followers   logs that begin at the tiered end, and how far their leaders have copied
beginnings  logs of restored partitions, which begin with what the store remembers
recording   what the cluster writes down of itself in the store
deletions   objects of topics that are deleted, or no longer tiered
settings    from Kafka's settings to values
monitoring  what is measured
status      what is told to clients
taking_back compacted logs that were lost
needs       what is needed of the broker
"""
