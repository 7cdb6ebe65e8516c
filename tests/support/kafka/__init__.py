"""Apache Kafka: `jars`, `tools`, a `broker`, one with all authentication methods (`secured`), one with ACLs
(`guarded`)."""
