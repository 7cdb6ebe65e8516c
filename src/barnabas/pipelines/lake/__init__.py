"""Tables of Parquet files by the hour, plain or as Iceberg, exactly once, on any file system that Hadoop knows."""
