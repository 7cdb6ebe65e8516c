"""Any topic as a table of Parquet files by the hour."""
