"""One topic: partitions, settings, consumer groups, and changes to it."""
