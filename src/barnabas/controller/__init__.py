"""The controller: pure functions from (image, request) to (deltas, result), and one writer of the metadata
log.

`Controller` decides, stores, applies and notifies; a `Decision` is any function of the image that returns
`Decided`.

controller.py   the only writer of the metadata log
partitions.py   transitions of one partition: ISR, ELR, leader, epochs, end of a reassignment
placement.py    replica placement of new partitions
topics.py       creation and deletion of topics, and more partitions
elections.py    ElectLeaders, and preferred leader elections
isr.py          AlterPartition
reassignment.py reassignments, and checks of manual assignments
brokers.py      registration, fencing, shutdown and unregistration of brokers; producer ids
configs.py      configs of topics, brokers and groups
settings.py     immediate effects of a changed config on partitions
features.py     finalized feature levels
decision.py     the type of a decision, and the policy settings
"""
