"""One topic: where it is, how it is set, who reads it, and changes of it."""
