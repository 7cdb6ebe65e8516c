"""HTTP in front of Kafka, for what speaks nothing else."""
