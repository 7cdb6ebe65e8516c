"""The web console: pages, a JSON API behind each of them, and metrics, for Barnabas and for Apache Kafka.

A page is one function, `async (context, query) -> Struct`; a template shows the Struct, `/api/v1` answers with it as
JSON. Pages read snapshots that a sampler refreshes, so none of them waits for a large cluster.
"""
