"""Details of one group: its members, its exact lag, and changes to its offsets."""
