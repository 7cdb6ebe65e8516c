"""Formats of stored objects: keys, manifests, and one object per segment."""
