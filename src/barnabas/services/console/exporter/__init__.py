"""kafka_exporter's metrics of any cluster, from what the sampler knows of it."""
