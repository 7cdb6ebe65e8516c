"""Log lines that people search: read from topics, kept as columns in memory-mapped files, scanned without an index.

`tailer` reads, `lines` makes columns of records, `store` keeps them in `chunks`, `search` and `context` look through
them, and `archive` is all of it for one cluster.
"""
