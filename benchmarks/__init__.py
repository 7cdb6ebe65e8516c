"""Barnabas side by side with Apache Kafka, on the same machine, with the same clients.

    make bench                                  everything
    make bench BENCH="--quick --rows produce"   some of it, fast

model.py says what a row of the table is, rows/ declares them, runner.py measures them in alternating rounds,
report.py prints and saves them. subjects/ starts what is measured, floors/ says what the machine can do at best.
clients/ holds the small programs that put the load on; they know nothing of Barnabas' own code.
"""
