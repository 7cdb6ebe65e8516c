"""Administration of mirror topics: status, pause, resume, promotion and failover."""
