"""What lies in the store: keys, manifests, and one object per segment."""
