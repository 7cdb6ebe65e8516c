"""Log compaction: retain only the last record of each key.

Theory of operation. A log is compacted from its start up to an *upper bound*: the base offset of the first segment
that is active, has an open transaction, is not flushed yet, or is too young (min.compaction.lag.ms).
The part below *first dirty* was compacted before; above it, keys may repeat.

    log start ... first dirty ... upper bound ... log end
        clean          dirty          untouched

    candidates.py   selection of logs, and the plan for one              on the event loop
    keys.py         first pass: the last offset of every dirty key       in the worker process
    record_signature.py the same, faster, for runs of records of equal layout
    retained_records.py second pass: the retained records of a batch
    transactions.py aborted batches, and markers without batches
    writer.py       the new segment, as `.cleaned` files
    cleaner.py      the two passes
    swap.py         replacing the old segments by the new one            on the event loop

Offsets never change: batches keep their first and last offset. Two kinds of batches are retained without records, as
a header: the last batch of a producer (for its sequence number, or the epoch in its marker), and the last batch below
the upper bound (for the end offset).

A tombstone is removed delete.retention.ms after the first compaction that retained it, a transaction marker
delete.retention.ms after the first compaction that found no batch of its transaction. The batch stores that time, the
delete horizon of KIP-534.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.log.compaction.candidates import Candidate as Candidate
    from barnabas.log.compaction.candidates import CleanedGroup as CleanedGroup
    from barnabas.log.compaction.candidates import CompactionLimits as CompactionLimits
    from barnabas.log.compaction.candidates import CompactionResult as CompactionResult
    from barnabas.log.compaction.candidates import examine as examine
    from barnabas.log.compaction.candidates import make_plan as make_plan
    from barnabas.log.compaction.swap import find_sources as find_sources
    from barnabas.log.compaction.swap import remove_unfinished as remove_unfinished
    from barnabas.log.compaction.swap import swap_in as swap_in
else:
    __getattr__ = lazy_exports(__name__)
