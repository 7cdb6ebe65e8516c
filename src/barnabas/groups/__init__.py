"""Group membership and offsets: state machines over `__consumer_offsets`, without a socket or a task."""
