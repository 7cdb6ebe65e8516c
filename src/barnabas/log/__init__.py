"""The log of a partition on disk, in Kafka's own formats, and the folder of many such logs.

Everything here is synchronous and owned by one loop. Files are reached through `barnabas.common.files.FileSystem`
only, so that the whole package also runs on a file system that fails on demand.
"""
