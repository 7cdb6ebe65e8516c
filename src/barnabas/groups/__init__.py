"""Group coordinator: membership and committed offsets as state machines over `__consumer_offsets`, without I/O."""
