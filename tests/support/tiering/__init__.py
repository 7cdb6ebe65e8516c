"""Object stores to test with, and a cluster that has lost its disks."""
