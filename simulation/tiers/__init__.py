"""Tiered topics in the simulator: segments of a few batches, and an unreliable object store.

bucket.py    in-memory object store behind a network: requests in flight are delivered even if the sender dies
traps.py     brokers that are killed or suspended at a named step of copying or expiring (U1-U6, D1-D4)
topics.py    settings of a tiered topic, and a client that deletes its oldest records
faults.py    faults of the store and of brokers that write to it
coverage.py  invariants of manifests, objects and disks, checked after every step
ending.py    heals the store and compares both tiers with the responses clients received
unclean.py   unclean election, by an operator, of a leader that lacks records
mutants.py   seeded bugs of copying and expiring
"""
