"""Rows as hashes, JSON strings or stream entries in Redis, exactly once: the batch number is written with them.

sink      settings in NAME.yml, and the connection
writer    a micro-batch as one Redis transaction
commands  RESP protocol, and commands of a row
"""
