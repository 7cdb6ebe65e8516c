"""Apache Kafka: `jars`, `tools`, a `broker`, one with all ways to log in (`secured`), one with ACLs (`guarded`)."""
