"""The fuzzer for ports with other protocols: HTTP, syslog and statsd.

    make fuzz FUZZ="--port registry --minutes 5"

watched    the program of a port, as users start it, with a stopwatch on its event loop
process    starting it beside a broker, sending cases, asking what they have cost
requests   HTTP: paths, heads, logins, lengths, compressed and slow bodies
bodies     what bodies hold: schemas, forms, records
lines      syslog and statsd
running    cases from a seed, and what is a failure
"""
