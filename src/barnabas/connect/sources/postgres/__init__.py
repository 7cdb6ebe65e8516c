"""PostgreSQL tables and their changes: an initial snapshot, then logical decoding.

source      settings in NAME.yml
reader      Spark's stream reader, and its positions
slot        the replication slot: peek, read, advance and safety checks
snapshot    consistent copy of the tables
tables      table patterns and the publication
database    connections and catalog queries
changes     converts messages to rows
decoding    decodes pgoutput messages
values      converts values to JSON and Spark types
"""
