"""A whole cluster in one process, from a seed: the brokers' own code on clocks, disks and a network of ours.

loop.py        an event loop whose time passes when nobody has anything to do; processes on it can be stopped
network.py     requests between brokers: delayed, lost, repeated, cut off
brokers.py     brokers without sockets and threads, on disks that can lose what was not synced
clients.py     a producer that remembers what was acknowledged, a reader that remembers what it saw
trader.py      a transactional producer, and a reader of what was committed
operator.py    somebody who changes settings in the middle of it all
stage.py       what all of them stand on: chance, time, machines, and the book of what happened
cast.py        which clients take part in a story
happenings.py  what happens to the cluster
invariants.py  what must be true after every step
watch.py       time passes in small steps, and is watched
ending.py      everything is mended, and what was told is compared with what is there
complaints.py  what brokers log
scenario.py    one story, from its beginning to its end
telling.py     many stories, on all cores
mutants.py     bugs put in on purpose, to see that the simulator finds them

`python -m barnabas.testing.simulation --seeds 1-200` runs stories; the one that fails is printed.
"""
