"""Tiered storage put together: the store, who reads it, and a writer for each partition that this broker leads.

tiering     all remote parts of a broker
led_log     the log of a led partition, as its writer sees it
followers   logs that begin at the tiered end, and how far their leaders have copied
deletions   objects of topics that are deleted, or no longer tiered
settings    from Kafka's settings to values
monitoring  what is measured
"""
