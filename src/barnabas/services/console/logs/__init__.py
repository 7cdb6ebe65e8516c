"""Log search: lines are read from topics, stored as columns in memory-mapped files, and scanned without an index.

`tailer` reads topics, `lines` converts records to columns, `store` keeps them in `chunks`, `search` and `context` query
them, and `archive` combines all of it for one cluster.
"""
