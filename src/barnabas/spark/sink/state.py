"""State of a sink: one value per sink in the compacted topic `__barnabas_sinks`.

*run*: increases when a driver takes over a sink. It is part of the transactional ids of its tasks, so that a replaced
driver cannot touch the transactions of its successors. *owner*: the driver process, and the query in it, that has the
run.
*start*: the start of the query that was the last to decide something. Two queries of one Spark that share a sinkId and
have no `checkpointLocation` are the same owner to the driver's processes; their starts distinguish them.
*decided*: the last batch of *query* that is, or will be, in the topics. *pending*: its transactions, until they are
known to be committed; a batch is decided when this value is written.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

NO_BATCH = -1
REMEMBERED = 20  # other queries, and starts
VERSION = 1


class TaskTransaction(NamedTuple):
    """The open transaction of one task."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class SinkState:
    run: int = 0
    owner: str = ""
    query: str = ""
    decided: int = NO_BATCH
    pending: tuple[TaskTransaction, ...] = ()
    previous: tuple[str, int] = ("", NO_BATCH)
    """`query` and `decided` before the pending decision, restored if the decision is withdrawn."""
    others: tuple[tuple[str, int], ...] = ()
    """The last batch of earlier queries of the sink: a query that returns must not write it twice."""
    start: str = ""
    replaced: tuple[str, ...] = ()
    """Superseded starts: such a start must stop."""

    def has(self, query: str, batch: int) -> bool:
        """True if this batch was decided. Another query counts its batches from zero."""
        return batch <= self.all_decided().get(query, NO_BATCH)

    def all_decided(self) -> dict[str, int]:
        """The last batch of every known query, the latest query at the end."""
        known = dict((*self.others, self.previous))
        known.pop(self.query, None)
        return known | {self.query: self.decided}

    def taken_over(self, owner: str) -> SinkState:
        return replace(self, run=self.run + 1, owner=owner)

    def with_decision(
        self, query: str, batch: int, pending: tuple[TaskTransaction, ...], start: str = ""
    ) -> SinkState:
        previous = (self.query, self.decided)
        replaced = self.replaced
        if self.start not in ("", start):
            replaced = (*replaced, self.start)[-REMEMBERED:]
        return replace(
            self,
            query=query,
            decided=batch,
            pending=pending,
            previous=previous,
            start=start,
            replaced=replaced,
        )

    def completed(self) -> SinkState:
        others = [
            (query, batch) for query, batch in self.all_decided().items() if query not in ("", self.query)
        ]
        return replace(self, pending=(), previous=("", NO_BATCH), others=tuple(others[-REMEMBERED:]))

    def withdrawn(self) -> SinkState:
        query, decided = self.previous
        return replace(self, pending=(), previous=("", NO_BATCH), query=query, decided=decided)


def encode_state(state: SinkState) -> bytes:
    fields = {
        "version": VERSION,
        "run": state.run,
        "owner": state.owner,
        "query": state.query,
        "decided": state.decided,
        "pending": [list(part) for part in state.pending],
        "previous": list(state.previous),
        "others": [list(one) for one in state.others],
        "start": state.start,
        "replaced": list(state.replaced),
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_state(value: bytes) -> SinkState:
    fields: dict[str, Any] = json.loads(value)
    if fields["version"] > VERSION:
        raise ValueError(
            f"the sink's state was written by a newer Barnabas (version {fields['version']} of the state)"
        )
    return SinkState(
        fields["run"],
        fields["owner"],
        fields["query"],
        fields["decided"],
        tuple(TaskTransaction(*part) for part in fields["pending"]),
        (fields["previous"][0], fields["previous"][1]),
        tuple((query, batch) for query, batch in fields.get("others", ())),
        fields.get("start", ""),
        tuple(fields.get("replaced", ())),
    )


# -- transactional ids ------------------------------------------------------------------------------------

# Writer names have no dash, so the ids of sinks cannot collide. Numbers and `rows` are from the
# time before ids carried the names of processes.
_TASK_ID = re.compile(r"(\d+)-([0-9a-f]+\.\d+|\d+|rows)")


def driver_id(sink: str) -> str:
    return f"{sink}-driver"


def task_id(sink: str, run: int, writer: str) -> str:
    return f"{sink}-{run}-{writer}"


def run_of(sink: str, transactional_id: str) -> int | None:
    """Run of a transactional id; None if it does not belong to a task of this sink."""
    if not transactional_id.startswith(f"{sink}-"):
        return None
    found = _TASK_ID.fullmatch(transactional_id[len(sink) + 1 :])
    return int(found[1]) if found else None
