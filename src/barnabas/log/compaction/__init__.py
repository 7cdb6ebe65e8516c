"""Compaction: of all records with one key, the last one stays.

Theory of operation. A log is compacted from its start up to an *upper bound*: the start of the first segment
that is active, holds an undecided transaction, is not yet on disk, or is too young (min.compaction.lag.ms).
What was compacted before ends at *first dirty*; from there on keys may repeat.

    log start ... first dirty ... upper bound ... log end
        clean          dirty          untouched

    candidates.py   which logs are worth it, and the plan for one        on the loop
    keys.py         first pass: the last offset of every dirty key       in the worker process
    alike.py        the same, faster, for records that look alike
    choosing.py     second pass: which records of a batch stay
    transactions.py which batches were aborted, which markers are done
    rewriting.py    a batch with fewer records
    writing.py      the new segment, as `.cleaned` files
    cleaner.py      the two passes
    swap.py         the new segment takes the place of the old ones      on the loop

Offsets never change: batches keep their first and last offset, whatever is taken out of them. What stays although
no record is left: the last batch of a producer (its sequence number, or the epoch in its marker) and the last batch
below the upper bound (so that the log's end is known), both as a header without records.

Tombstones and transaction markers stay for delete.retention.ms after the first compaction that finds nothing else to
remove for them. When that time is over stands in the batch itself (the delete horizon of KIP-534).
"""
