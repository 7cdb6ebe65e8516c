"""The controller: pure functions from (image, request) to (deltas, result), and the writer of the metadata log.

`Controller` decides, stores, applies and notifies; a `Decision` is any function of the image that returns `Decided`.

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

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.controller.controller import Controller
    from barnabas.controller.decision import ControllerPolicy, Decided, Decision
    from barnabas.controller.delegation_tokens import NewToken, TokenRules, remove_expired
    from barnabas.controller.elections import balance_leaders, uncleanly_led
    from barnabas.controller.features import FeatureUpdate, UpgradeType, check_supported
    from barnabas.controller.healing import Healing, HealingSettings, Targets
    from barnabas.controller.internal_topics import internal_topic
    from barnabas.controller.isr import ANY_EPOCH, ProposedIsr, alter_isr, check_broker_epoch
    from barnabas.controller.mirror_settling import Settled, settle_mirrors
    from barnabas.controller.partitions import Election
    from barnabas.controller.reassignment import alter_reassignments
    from barnabas.controller.settings import settle_min_isr
    from barnabas.controller.topics import CreatedTopic, MorePartitions, NewTopic, create_topics
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "controller": "Controller",
            "decision": "ControllerPolicy Decided Decision",
            "delegation_tokens": "NewToken TokenRules remove_expired",
            "elections": "balance_leaders uncleanly_led",
            "features": "FeatureUpdate UpgradeType check_supported",
            "healing": "Healing HealingSettings Targets",
            "internal_topics": "internal_topic",
            "isr": "ANY_EPOCH ProposedIsr alter_isr check_broker_epoch",
            "mirror_settling": "Settled settle_mirrors",
            "partitions": "Election",
            "reassignment": "alter_reassignments",
            "settings": "settle_min_isr",
            "topics": "CreatedTopic MorePartitions NewTopic create_topics",
        },
    )

__all__ = [
    "ANY_EPOCH",
    "Controller",
    "ControllerPolicy",
    "CreatedTopic",
    "Decided",
    "Decision",
    "Election",
    "FeatureUpdate",
    "Healing",
    "HealingSettings",
    "MorePartitions",
    "NewToken",
    "NewTopic",
    "ProposedIsr",
    "Settled",
    "Targets",
    "TokenRules",
    "UpgradeType",
    "alter_isr",
    "alter_reassignments",
    "balance_leaders",
    "check_broker_epoch",
    "check_supported",
    "create_topics",
    "internal_topic",
    "remove_expired",
    "settle_min_isr",
    "settle_mirrors",
    "uncleanly_led",
]
