"""Object stores: the interface `ObjectStore`, its implementations, and `open_store`."""
