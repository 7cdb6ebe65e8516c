"""Tiered topics in the simulator: segments of a few batches, and an object store that fails.

bucket.py    the store in memory, behind a network: what is under way arrives, whatever becomes of its sender
traps.py     brokers that are killed or stopped at a named step of copying or expiring (U1-U6, D1-D4)
topics.py    settings of a tiered topic, and a client that deletes its oldest records
faults.py    what is done to the store and to those who write there
coverage.py  what must be true of manifests, objects and disks after every step
ending.py    the store is healed; both tiers together are compared with what clients were answered
unclean.py   a leader that lacks records, elected by an operator
mutants.py   bugs of copying and expiring, put in on purpose
"""
