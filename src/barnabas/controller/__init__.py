"""Decisions for the cluster: pure functions from (image, request) to (deltas, result), and one writer.

controller.py   the one writer: decides, stores, applies, tells
partitions.py   one transition of one partition: ISR, ELR, leader, epochs, end of a reassignment
placement.py    on which brokers new partitions go
assignments.py  checks of replica lists that people write themselves
topics.py       topics are created and deleted, and get more partitions
elections.py    other leaders: asked for, or preferred replicas that are back
isr.py          a leader asks for another ISR
reassignment.py partitions move between brokers
brokers.py      brokers register, are fenced, stop and leave; they get producer ids
configs.py      settings of topics, brokers and groups change
settings.py     what a changed setting does to partitions at once
features.py     finalized feature levels change
decision.py     the shape of every decision, and what decisions know of the settings
"""
