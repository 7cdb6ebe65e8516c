"""Streams groups (KIP-1071): the broker sizes an application's topics and shares its tasks out."""
