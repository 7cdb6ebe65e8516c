"""Helpers shared by tests of several packages; those of one package are in its folder.

`waiting`: until a condition is true, with a limit and a reason. `programs`: other programs, and what to do if one is
missing. `kafka`, `zookeeper`, `databases`, `identity_providers`: counterparts as processes. `spark`: session and jars.
`brokers`: ours as a process; `clusters`: several in this one; `mirrors`, `registry`, `cli`: what else users run.
`server`, `clients`, `consumers`, `topics`, `groups`: who talks to them. `certificates`, `sasl`: what clients log in
with. `proxies`, `disks`, `tiering`: what fails. `clocks`, `extremes`: how long it takes. `builders`: values.
"""
