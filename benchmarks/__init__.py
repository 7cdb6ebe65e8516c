"""Benchmarks of Barnabas against Apache Kafka, on the same machine, with the same clients.

    make bench                                  everything
    make bench BENCH="--quick --rows produce"   some of it, fast

model.py defines a row of the table, rows/ declares the rows, runner.py measures them in alternating rounds, report.py
prints and saves them. subjects/ starts the systems under test, floors/ measures the limits of the machine. clients/
contains the small load generators, which are independent of Barnabas' code.
"""
