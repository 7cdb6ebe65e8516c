"""Data pipelines on Spark: the data source, the sink, and what runs pipelines. The only importer of pyspark."""
