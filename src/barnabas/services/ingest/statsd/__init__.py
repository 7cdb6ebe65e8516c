"""statsd: what programs count and time, added up every few seconds."""
