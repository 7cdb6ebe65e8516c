"""Log dirs: the disks of a broker, which logs they hold, and how a replica moves from one to another."""
