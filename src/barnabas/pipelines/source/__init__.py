"""Topics as tables and streams: `spark.read` and `spark.readStream` with format "barnabas"."""
