"""Rows as hashes, JSON texts or entries of a stream in Redis, exactly once: the batch's number is written with them.

sink      settings in NAME.yml, and the connection
writer    a micro-batch as one Redis transaction
commands  rows to commands
"""
