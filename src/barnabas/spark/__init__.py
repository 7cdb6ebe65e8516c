"""Spark data source and sink, the session builder and the JVM plumbing.

Entry points: make_reader, make_stream_reader, make_batch_writer, make_stream_writer and session_builder. Only `spark`,
`connect` and `pipelines` import pyspark.
"""
