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
    from barnabas.controller.controller import Controller as Controller
    from barnabas.controller.decision import ControllerPolicy as ControllerPolicy
    from barnabas.controller.decision import Decided as Decided
    from barnabas.controller.decision import Decision as Decision
    from barnabas.controller.delegation_tokens import NewToken as NewToken
    from barnabas.controller.delegation_tokens import TokenRules as TokenRules
    from barnabas.controller.delegation_tokens import remove_expired as remove_expired
    from barnabas.controller.elections import balance_leaders as balance_leaders
    from barnabas.controller.elections import uncleanly_led as uncleanly_led
    from barnabas.controller.features import FeatureUpdate as FeatureUpdate
    from barnabas.controller.features import UpgradeType as UpgradeType
    from barnabas.controller.features import check_supported as check_supported
    from barnabas.controller.healing import Healing as Healing
    from barnabas.controller.healing import HealingSettings as HealingSettings
    from barnabas.controller.healing import Targets as Targets
    from barnabas.controller.internal_topics import internal_topic as internal_topic
    from barnabas.controller.isr import ANY_EPOCH as ANY_EPOCH
    from barnabas.controller.isr import ProposedIsr as ProposedIsr
    from barnabas.controller.isr import alter_isr as alter_isr
    from barnabas.controller.isr import check_broker_epoch as check_broker_epoch
    from barnabas.controller.mirror_settling import Settled as Settled
    from barnabas.controller.mirror_settling import settle_mirrors as settle_mirrors
    from barnabas.controller.mirrors import MirrorChange as MirrorChange
    from barnabas.controller.mirrors import MirrorLink as MirrorLink
    from barnabas.controller.mirrors import PartitionChange as PartitionChange
    from barnabas.controller.mirrors import Results as Results
    from barnabas.controller.mirrors import alter_mirrors as alter_mirrors
    from barnabas.controller.partitions import Election as Election
    from barnabas.controller.processes import TRANSFERS_AT_ONCE as TRANSFERS_AT_ONCE
    from barnabas.controller.processes import check_ids as check_ids
    from barnabas.controller.processes import finalize_processes as finalize_processes
    from barnabas.controller.processes import replace_gone as replace_gone
    from barnabas.controller.processes import spread as spread
    from barnabas.controller.reassignment import alter_reassignments as alter_reassignments
    from barnabas.controller.restoring import TIERED as TIERED
    from barnabas.controller.restoring import RestoredTopics as RestoredTopics
    from barnabas.controller.restoring import StoredTopic as StoredTopic
    from barnabas.controller.restoring import end_deletion as end_deletion
    from barnabas.controller.restoring import restored_image as restored_image
    from barnabas.controller.restoring import sort_topics as sort_topics
    from barnabas.controller.settings import settle_min_isr as settle_min_isr
    from barnabas.controller.topics import CreatedTopic as CreatedTopic
    from barnabas.controller.topics import MorePartitions as MorePartitions
    from barnabas.controller.topics import NewTopic as NewTopic
    from barnabas.controller.topics import create_topics as create_topics
else:
    __getattr__ = lazy_exports(__name__)
