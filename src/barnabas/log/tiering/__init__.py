"""Tiered storage from the view of the log (KIP-405).

checkpoint    the tiered offsets, stored on the local disk
retention     total retention over both tiers, and local retention
copying       the next sealed segment to copy, with its metadata
rebuilding    logs restored from tiered storage
markers       markers for transactions that lost theirs with the tail of the log
"""
