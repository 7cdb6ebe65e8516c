"""Who decides in the cluster: pure functions from (image, request) to (deltas, result), and one writer.

controller.py   the one writer: decides, stores, applies, tells
partitions.py   one step of one partition: ISR, ELR, leader, epochs, end of a reassignment
placement.py    on which brokers new partitions go
assignments.py  checks of replica lists that people write themselves
topics.py       topics are created and deleted, and get more partitions
elections.py    ElectLeaders, and ISR changes that leaders ask for
reassignment.py partitions move between brokers
brokers.py      brokers register, are fenced, stop and leave
configs.py      settings of topics, brokers and groups change
features.py     finalized feature levels change
producer_ids.py blocks of producer ids
policy.py       what decisions need to know of the settings
"""
