"""Origin of the records of a restored topic: the value of `barnabas.remote.origin`.

    snapshot=friday,topic=clicks,partitions=3,epoch=8     a clone of a snapshot
    cluster=1,partitions=3                                a topic of a cluster that was restored; 1 is the incarnation

An empty log of such a partition is not new: its leader reads the object store before it accepts records. Partitions
added later (from `partitions` on) are new. `epoch` is the first leader epoch of the restored topic: the records of the
source keep their leader epochs, which must be lower.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.config.setting import Value

REMOTE_ORIGIN = "barnabas.remote.origin"


class RemoteOrigin(NamedTuple):
    partitions: int
    snapshot: str = ""
    topic: str = ""
    incarnation: int = 0
    leader_epoch: int = 0

    def __str__(self) -> str:
        source = (
            f"snapshot={self.snapshot},topic={self.topic}" if self.snapshot else f"cluster={self.incarnation}"
        )
        epoch = f",epoch={self.leader_epoch}" if self.leader_epoch else ""
        return f"{source},partitions={self.partitions}{epoch}"


def parse_origin(text: str) -> RemoteOrigin:
    """Parse an origin; ValueError if it is invalid."""
    pairs = dict(part.split("=", 1) for part in text.split(","))
    known = {"snapshot", "topic", "cluster", "partitions", "epoch"}
    if not pairs.keys() <= known or ("snapshot" in pairs) == ("cluster" in pairs):
        raise ValueError(text)
    numbers = {name: int(pairs.get(name, 0)) for name in ("partitions", "cluster", "epoch")}
    if min(numbers.values()) < 0 or numbers["epoch"] > 1 << 30:
        raise ValueError(text)
    return RemoteOrigin(
        numbers["partitions"],
        pairs.get("snapshot", ""),
        pairs.get("topic", ""),
        numbers["cluster"],
        numbers["epoch"],
    )


def origin_of(configs: Mapping[str, str | None]) -> RemoteOrigin | None:
    """Return the origin of a topic with these configs."""
    text = configs.get(REMOTE_ORIGIN)
    return parse_origin(text) if text else None


class OriginText:
    """Validator of the setting."""

    allowed = "as `barnabas snapshot restore` and `barnabas cluster restore` write it"

    def problem(self, value: Value) -> str | None:
        try:
            parse_origin(str(value or "cluster=0"))
        except ValueError:
            return f"Expected a value {self.allowed}"
        return None
