"""What a machine does: what its kernel counts, and counters of the programs on it, as rates."""
