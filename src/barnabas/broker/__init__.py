"""A broker put together from its configuration: how it starts, what it does by the clock, how it stops."""
