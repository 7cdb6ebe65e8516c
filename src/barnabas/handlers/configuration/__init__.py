"""Settings of topics, brokers, loggers, groups and client metrics: described, and changed while they run."""
