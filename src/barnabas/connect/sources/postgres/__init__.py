"""Tables of PostgreSQL and every change of them: a snapshot first, then logical decoding.

source      settings in NAME.yml
reader      Spark's stream reader, and its position
slot        the replication slot: peek, advance, and when to stop
snapshot    tables as they were at one moment
tables      which tables, and the publication
database    connections and the catalogue
changes     messages to rows
decoding    bytes to messages
values      texts of types to JSON
"""
