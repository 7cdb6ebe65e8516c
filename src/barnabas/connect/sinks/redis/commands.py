"""Rows to commands of Redis. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from barnabas.connect.sinks.redis.resp import Part

Kind = Literal["hash", "json", "stream"]
Command = tuple[Part, ...]


@dataclass(frozen=True)
class Shape:
    kind: Kind
    stream: str = ""
    ttl_ms: int | None = None
    """How long keys live after their last change; None: until they are deleted."""

    def commands(self, key: str, fields: Mapping[str, str], *, deleted: bool) -> Iterator[Command]:
        """For one row: `fields` are those that have a value, as texts; a JSON text is the field `json`."""
        if self.kind == "stream":
            told = {**fields, "deleted": "true"} if deleted else fields
            yield ("XADD", self.stream, "*", *_flat(told or {"empty": "true"}))
            return
        if deleted or (self.kind == "hash" and not fields):
            yield ("DEL", key)
            return
        if self.kind == "json":
            expiry = () if self.ttl_ms is None else ("PX", self.ttl_ms)
            yield ("SET", key, fields["json"], *expiry)
            return
        yield ("DEL", key)  # a field that the row does not have any more goes too
        yield ("HSET", key, *_flat(fields))
        if self.ttl_ms is not None:
            yield ("PEXPIRE", key, self.ttl_ms)


def _flat(fields: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(part for field in fields.items() for part in field)
