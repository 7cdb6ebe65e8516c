"""The segments of a log: files with indexes by offset, timestamp and aborted transaction."""
