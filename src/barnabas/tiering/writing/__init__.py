"""The writing side of a led partition: claim, sweep, copy, expire."""
