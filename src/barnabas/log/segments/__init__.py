"""The segments of a log: files with their indexes, found by offset, time and transaction."""
