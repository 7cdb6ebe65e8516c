"""Pipelines as files: Spark's own layout of a declarative pipeline, and what Barnabas adds beside it."""
