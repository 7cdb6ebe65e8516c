"""What a sink remembers about itself: one value a sink in the compacted topic `__barnabas_sinks`.

*run*: every driver that takes a sink over gets a higher number. It stands in the transactional ids of its tasks, so
that nobody who was replaced can touch a transaction of who came later. *owner*: the driver process, and the query in
it, that has the run.
*start*: which start of which query was the last to decide something. Two queries of one Spark that share a sinkId and
have no `checkpointLocation` are one owner to the driver's processes, which know no more; their starts tell them apart.
*decided*: the last batch of *query* that will be, or is, in the topics. *pending*: its transactions, until they are
known to be committed; a batch is decided at the moment at which this value is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

NO_BATCH = -1
REMEMBERED = 20  # other queries, and starts
VERSION = 1


class Part(NamedTuple):
    """The transaction that one task has left open."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class SinkState:
    run: int = 0
    owner: str = ""
    query: str = ""
    decided: int = NO_BATCH
    pending: tuple[Part, ...] = ()
    previous: tuple[str, int] = ("", NO_BATCH)
    """`query` and `decided` before the pending decision: what a decision that failed is taken back to."""
    others: tuple[tuple[str, int], ...] = ()
    """The same of queries that had the sink before: one that comes back must not write its last batch twice."""
    start: str = ""
    replaced: tuple[str, ...] = ()
    """Starts that others came after: a start is over then, and if it is not, it must stop."""

    def has(self, query: str, batch: int) -> bool:
        """Whether this batch was decided. Another query counts its batches from zero."""
        return batch <= self.all_decided().get(query, NO_BATCH)

    def all_decided(self) -> dict[str, int]:
        """The last batch of every query that is remembered, the latest query at the end."""
        known = dict((*self.others, self.previous))
        known.pop(self.query, None)
        return known | {self.query: self.decided}

    def taken_over(self, owner: str) -> SinkState:
        return replace(self, run=self.run + 1, owner=owner)

    def with_decision(self, query: str, batch: int, pending: tuple[Part, ...], start: str = "") -> SinkState:
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
        tuple(Part(*part) for part in fields["pending"]),
        (fields["previous"][0], fields["previous"][1]),
        tuple((query, batch) for query, batch in fields.get("others", ())),
        fields.get("start", ""),
        tuple(fields.get("replaced", ())),
    )


# -- transactional ids ------------------------------------------------------------------------------------

# Who writes has no dash in its name: so no sink's ids look like those of another sink. Numbers and `rows` are from the
# time before ids carried the names of processes.
_TASK_ID = re.compile(r"(\d+)-([0-9a-f]+\.\d+|\d+|rows)")


def driver_id(sink: str) -> str:
    return f"{sink}-driver"


def task_id(sink: str, run: int, writer: str) -> str:
    return f"{sink}-{run}-{writer}"


def run_of(sink: str, transactional_id: str) -> int | None:
    """The run that an id belongs to; None when it is no task's of this sink."""
    if not transactional_id.startswith(f"{sink}-"):
        return None
    found = _TASK_ID.fullmatch(transactional_id[len(sink) + 1 :])
    return int(found[1]) if found else None
