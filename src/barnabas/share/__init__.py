"""Share groups on the broker (KIP-932): share partitions and the share coordinator.

`SharePartitionManager` holds the share partitions that this broker leads, with their record states and
delivery counts.
`ShareCoordinator` stores that state in `__share_group_state`; `SharePersister` reads and writes it on
whichever broker
coordinates it.
"""
