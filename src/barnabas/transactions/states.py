"""The states of a transactional id, and which may follow which.

    Empty --add partitions--> Ongoing --commit--> PrepareCommit --all markers written--> CompleteCommit
                              Ongoing --abort---> PrepareAbort  --all markers written--> CompleteAbort
                              Ongoing --timeout or a new instance--> PrepareEpochFence --> PrepareAbort

A complete transaction is followed by the next one (Ongoing), by a new instance of the producer (Empty), or, when the
id has been silent for long, by the end of the id (Dead). With transactions V2 a producer may abort a transaction
to which nothing was added, because it cannot know whether its first batch arrived (KIP-890): so PrepareAbort
also follows states in which nothing is open.

PrepareEpochFence is a step of one decision and never written. Dead is written as a tombstone.
"""

from __future__ import annotations

from enum import IntEnum


class TransactionState(IntEnum):
    """Kafka's own numbers: they stand in the records of `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """As Kafka's tools write it: PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_S = TransactionState

# Nothing is open: a new instance may start, the next transaction may begin, the id may expire.
AT_REST = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
# The outcome is decided, but not yet known to every partition.
DECIDED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
ENDED = DECIDED | {_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}

COMES_FROM: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: AT_REST,
    _S.ONGOING: AT_REST | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: AT_REST | {_S.ONGOING, _S.PREPARE_EPOCH_FENCE},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: AT_REST,
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}
"""The transition table: which states a state may follow."""

BY_LABEL = {state.label: state for state in TransactionState}
