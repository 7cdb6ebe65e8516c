"""Streams groups (KIP-1071): the broker sizes an application's internal topics and assigns its tasks."""
