"""What is known to be too slow or too large today and is being fixed elsewhere. To be emptied, and then removed.

The fuzzer counts these and goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.judging import Failure

# (API, kind of failure): the reason.
KNOWN: dict[tuple[str, str], str] = {
    ("Produce", "loop"): "rows 1, 6 and 10: records are decoded on the loop",
    ("Produce", "memory"): "row 1: records are decoded on the loop",
    ("Produce", "hung"): "row 1: records are decoded on the loop",
    ("ListTransactions", "loop"): "row 2: patterns that backtrack",
    ("ListTransactions", "hung"): "row 2: patterns that backtrack",
    ("DescribeConfigs", "loop"): "row 3: what is named twice is answered twice",
    ("DescribeConfigs", "memory"): "row 3: what is named twice is answered twice",
    ("DescribeConfigs", "hung"): "row 3: what is named twice is answered twice",
    ("AddPartitionsToTxn", "hung"): "row 4: eighty bytes of memory for each byte",
    ("AlterReplicaLogDirs", "loop"): "row 9: lines in the log",
    ("AlterReplicaLogDirs", "log"): "row 9: lines in the log",
    ("AlterReplicaLogDirs", "flood"): "row 9: lines in the log",
    ("WriteTxnMarkers", "loop"): "row 7: from anybody",
}

# Frames above this many bytes are too slow wherever a message has many elements, until requests have a budget.
LARGE_FRAME: int | None = 25_000


def reason(failure: Failure) -> str | None:
    if LARGE_FRAME is not None and failure.kind in ("loop", "memory") and len(failure.frame) > LARGE_FRAME:
        return "rows 3 and 4: a request has no budget"
    return KNOWN.get(failure.key)


def is_known(failure: Failure) -> bool:
    return reason(failure) is not None
