"""Share groups (KIP-932): members that share partitions; who has which record is for `queues` to know."""
