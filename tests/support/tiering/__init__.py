"""Object stores for tests, and a cluster that has lost its disks."""
