"""Log dirs: loading, placement, checkpoints, disk failures, and moving a replica from one dir to another."""
