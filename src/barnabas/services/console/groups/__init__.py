"""One group, looked at closely: its members, its exact lag, and changes of its offsets."""
