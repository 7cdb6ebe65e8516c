"""The log of a partition on disk, in Kafka's file formats, and the log directories that hold many of them.

The package is synchronous and owned by one event loop. All file access goes through `barnabas.common.files.FileSystem`,
so tests can run the whole package on a file system that injects failures.
"""
