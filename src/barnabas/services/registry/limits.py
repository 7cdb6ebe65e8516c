"""Limits on the work that one schema may cause, for the whole process: `registry run --limit NAME=VALUE`.

A text of 1 MiB can require unbounded work and memory, so values are counted while parsing and steps while comparing.
Each default is far above the needs of schemas written by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar


class InvalidLimitError(ValueError):
    """Unknown limit or invalid value; the message lists the limits."""


@dataclass(slots=True)
class SchemaLimits:
    """Limits; names on the command line have dashes: `--limit max-steps=2000000`."""

    max_values: int = 100_000
    """Objects and lists in one schema. Each takes about 250 bytes of memory once parsed; in schemas written by hand it
    takes 25 bytes of text or more, so a body of 1 MiB has 40,000."""

    max_name_bytes: int = 4 * 1024 * 1024
    """Total length of full type names, or of sub-schema addresses, in one schema: nested names repeat the namespace."""

    max_referenced_bytes: int = 4 * 1024 * 1024
    """Total size of the schemas referenced by one schema."""

    max_metadata_bytes: int = 256 * 1024
    """Size of the metadata and rules of one schema."""

    max_steps: int = 200_000
    """Compared pairs of sub-schemas, and problems found, in one comparison. A schema of 1,000 fields takes about 2,000,
    a list of 300 alternatives that have all changed 100,000. A step takes 20 microseconds and 500 bytes."""

    max_seconds: int = 5
    """CPU time of a comparison in the worker process."""

    max_worker_bytes: int = 64 * 1024 * 1024
    """Memory of a comparison in the worker process."""

    cache_bytes: int = 32 * 1024 * 1024
    """Estimated memory of cached parsed schemas."""

    quick_steps: ClassVar[int] = 10_000
    """Steps in the registry process, about a quarter of a second; longer comparisons run in the worker."""

    def set(self, text: str) -> None:
        """Set a limit from `NAME=VALUE`; InvalidLimitError unless the value is a number above 0."""
        name, _, value = text.partition("=")
        known = {field.name.replace("_", "-"): field.name for field in fields(self)}
        if name not in known:
            raise InvalidLimitError(f"unknown limit {name!r}; limits are {', '.join(known)}")
        if not (value.isascii() and value.isdecimal() and len(value) < 16 and int(value) > 0):
            raise InvalidLimitError(f"not a valid value of {name}: {value!r} (a number above 0)")
        setattr(self, known[name], int(value))

    def to_arguments(self) -> list[str]:
        """Arguments for `set` in the worker process."""
        return [f"{field.name.replace('_', '-')}={getattr(self, field.name)}" for field in fields(self)]


limits = SchemaLimits()


class TooComplexError(Exception):
    """A comparison exceeded its step budget."""


class StepBudget:
    """Counts the steps of one comparison."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooComplexError
