"""Fuzzing with cost limits: hostile frames for a real broker, with loop time and memory measured for each.

`python -m tests.fuzz --frames 1000000 --seed 7 --minutes 60 --corpus DIR --listener sasl --stage before`

`extremes` says what is extreme, `world` what exists on the broker, `generating` makes messages of both from the
declarations of the protocol, `batches` makes record batches, `damaging` mutates frames, `seeds` holds what has stopped
the loop before. `variants` says to which listeners that goes, before or after authentication: `lines` connects,
`unauthenticated` is what is said before it, `broken_tls` what is no TLS. `target` is the broker in its own process,
`driving` talks to it, `judging` decides what is a failure, `running` is the long run, `findings` what it has found.
"""
