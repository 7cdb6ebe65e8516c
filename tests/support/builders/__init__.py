"""Values for tests: images, logs, records, messages, segments, ACLs, topologies, telemetry."""
