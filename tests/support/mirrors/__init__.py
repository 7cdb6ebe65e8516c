"""The target of a mirror, and `barnabas mirror` as a process."""
