"""Bounds on the work that one schema may cause, for the whole process: `registry run --limit NAME=VALUE`.

A text of 1 MiB can mean more work and memory than any machine has, so what it means is counted: values while it is
parsed, steps while it is compared. Each default is far above what schemas that people write need.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar


class InvalidLimitError(ValueError):
    """The text says which limits there are."""


@dataclass(slots=True)
class SchemaLimits:
    """Names on the command line have dashes: `--limit max-steps=2000000`."""

    max_values: int = 100_000
    """Objects and lists in one schema. One takes about 250 bytes of memory once it is parsed; in schemas that people
    write it takes 25 bytes of text or more, so a body of 1 MiB has 40,000."""

    max_name_bytes: int = 4 * 1024 * 1024
    """Full names of types, or addresses of sub-schemas, in one schema: a name inside a namespace repeats it."""

    max_referenced_bytes: int = 4 * 1024 * 1024
    """Texts of all schemas that one refers to."""

    max_metadata_bytes: int = 256 * 1024
    """Metadata and rules of one schema."""

    max_steps: int = 200_000
    """Pairs of sub-schemas, and problems found, in one comparison. A schema of 1,000 fields takes about 2,000, a list
    of 300 alternatives in which each has changed 100,000. A step takes 20 microseconds and 500 bytes."""

    max_seconds: int = 5
    """CPU time of a comparison in the worker process."""

    max_worker_bytes: int = 64 * 1024 * 1024
    """Memory that a comparison in the worker process may take."""

    cache_bytes: int = 32 * 1024 * 1024
    """Schemas that are kept parsed, by an estimate of their memory."""

    quick_steps: ClassVar[int] = 10_000
    """Steps that are done in the registry itself, in a quarter of a second; what takes more goes to the worker."""

    def set(self, text: str) -> None:
        """InvalidLimitError unless this is `NAME=VALUE` with a number above 0."""
        name, _, value = text.partition("=")
        known = {field.name.replace("_", "-"): field.name for field in fields(self)}
        if name not in known:
            raise InvalidLimitError(f"unknown limit {name!r}; limits are {', '.join(known)}")
        if not (value.isascii() and value.isdecimal() and len(value) < 16 and int(value) > 0):
            raise InvalidLimitError(f"not a valid value of {name}: {value!r} (a number above 0)")
        setattr(self, known[name], int(value))

    def to_arguments(self) -> list[str]:
        """As `set` takes them, for the worker process."""
        return [f"{field.name.replace('_', '-')}={getattr(self, field.name)}" for field in fields(self)]


limits = SchemaLimits()


class TooComplexError(Exception):
    """A comparison took more steps than it may."""


class StepBudget:
    """Counts the steps of one comparison."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooComplexError
