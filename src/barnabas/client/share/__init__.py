"""Share group consumer (KIP-932): records are acquired like jobs from a queue and acknowledged one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.share.acquired import AcknowledgeType as AcknowledgeType
    from barnabas.client.share.acquired import AcquiredRecord as AcquiredRecord
    from barnabas.client.share.acquired import Refusal as Refusal
    from barnabas.client.share.consumer import ShareConsumer as ShareConsumer
    from barnabas.client.share.dead_letters import DIALECTS as DIALECTS
    from barnabas.client.share.dead_letters import GROUP_PREFIX as GROUP_PREFIX
    from barnabas.client.share.dead_letters import DeadLetter as DeadLetter
    from barnabas.client.share.dead_letters import DeadLetterFilter as DeadLetterFilter
    from barnabas.client.share.leases import answer_receipts as answer_receipts
    from barnabas.client.share.leases import new_lease as new_lease
    from barnabas.client.share.leases import parse_receipt as parse_receipt
    from barnabas.client.share.leases import receipt_of as receipt_of
    from barnabas.client.share.redriving import RedriveResult as RedriveResult
    from barnabas.client.share.redriving import Sendable as Sendable
    from barnabas.client.share.redriving import pending_letters as pending_letters
    from barnabas.client.share.redriving import read_letters as read_letters
    from barnabas.client.share.redriving import redrive as redrive
    from barnabas.client.share.status import QueueStatus as QueueStatus
    from barnabas.client.share.status import describe_queue as describe_queue
else:
    __getattr__ = lazy_exports(__name__)
