"""Records of internal topics and of Kafka's own metadata log, declared like messages."""
