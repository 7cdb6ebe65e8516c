"""Rows as hashes, JSON texts or entries of a stream in Redis, exactly once: the batch's number is written with them.

sink      what NAME.yml says
writing   a micro-batch as one transaction of Redis
commands  rows to commands
server    connection
resp      Redis' protocol as bytes
"""
