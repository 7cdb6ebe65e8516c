"""Tables as plain Parquet files in hourly folders, exactly once, on any file system that Hadoop knows."""
