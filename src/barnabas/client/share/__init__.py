"""Share group consumer (KIP-932): records are acquired like jobs from a queue and acknowledged one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.share.acquired import AcknowledgeType, AcquiredRecord, Refusal
    from barnabas.client.share.consumer import ShareConsumer
    from barnabas.client.share.dead_letters import DIALECTS, GROUP_PREFIX, DeadLetter, DeadLetterFilter
    from barnabas.client.share.leases import answer_receipts, new_lease, parse_receipt, receipt_of
    from barnabas.client.share.redriving import RedriveResult, pending_letters, read_letters, redrive
    from barnabas.client.share.status import QueueStatus, describe_queue
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "acquired": "AcknowledgeType AcquiredRecord Refusal",
            "consumer": "ShareConsumer",
            "dead_letters": "DIALECTS DeadLetter DeadLetterFilter GROUP_PREFIX",
            "leases": "answer_receipts new_lease parse_receipt receipt_of",
            "redriving": "RedriveResult pending_letters read_letters redrive",
            "status": "QueueStatus describe_queue",
        },
    )

__all__ = [
    "DIALECTS",
    "GROUP_PREFIX",
    "AcknowledgeType",
    "AcquiredRecord",
    "DeadLetter",
    "DeadLetterFilter",
    "QueueStatus",
    "RedriveResult",
    "Refusal",
    "ShareConsumer",
    "answer_receipts",
    "describe_queue",
    "new_lease",
    "parse_receipt",
    "pending_letters",
    "read_letters",
    "receipt_of",
    "redrive",
]
