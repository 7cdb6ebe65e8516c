"""Values and seams that know nothing of Kafka's protocol. Its modules are its public interface."""
