"""A whole cluster in one process, from a seed: the brokers' own code on simulated clocks, disks and network.

loop.py        an event loop whose time passes when nothing is left to run; processes on it can be stopped
network.py     requests between brokers: delayed, lost, repeated, cut off
brokers.py     brokers without sockets and threads, on disks that can lose what was not synced
clients.py     a producer that remembers what was acknowledged, a reader that remembers what it saw
trader.py      a transactional application with offsets in its transactions, and a reader of what was committed
operator.py    changes settings meanwhile
world.py       random numbers, time, machines, network, and the list of what happened
workload.py    which clients take part in a scenario
faults.py      what is done to the cluster
invariants.py  what must be true after every step
watch.py       lets time pass in small steps, and checks the invariants after each
ending.py      all faults are healed; what clients were answered is compared with what brokers hold
scenario.py    one scenario, from start to end
runner.py      many scenarios, on all cores
tiers/         segments in an object store, which fails too
mutants.py     bugs put in on purpose, to see that the simulator finds them

`python -m simulation --seeds 1-200` runs scenarios; one that fails is printed.
"""
