"""Deterministic simulation of a whole cluster in one process: the brokers' real code on simulated clocks, disks and
network, driven by a seed.

loop.py        event loop with virtual time; processes on it can be suspended
network.py     requests between brokers: delayed, lost, duplicated, partitioned
brokers.py     brokers without sockets and threads, on disks that can lose unsynced data
clients.py     a producer that records its acknowledgements, a consumer that records what it read
trader.py      a transactional application that commits offsets, and a read_committed consumer
operator.py    configuration changes during a scenario
world.py       random numbers, time, machines, network, and the event log
workload.py    the clients of a scenario
faults.py      faults, repairs and operator actions
invariants.py  properties checked after every step
watch.py       advances time in small steps and checks the invariants after each
ending.py      heals all faults and compares client responses with the contents of the brokers
scenario.py    one scenario, from start to end
runner.py      many scenarios, on all cores
tiers/         tiered storage on an unreliable object store
mutants.py     seeded bugs that the simulator must detect

`python -m simulation --seeds 1-200` runs scenarios and prints the events of a failed one.
"""
