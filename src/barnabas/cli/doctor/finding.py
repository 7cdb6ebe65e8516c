"""The result of one check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """Works now, but may fail later or perform badly."""
    PROBLEM = "problem"
    """A broker does not start or clients cannot use it."""


@dataclass(frozen=True)
class Finding:
    check: str
    level: Level
    text: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


def ok(check: str, text: str) -> Finding:
    return Finding(check, Level.OK, text)


def warning(check: str, text: str, remedy: str) -> Finding:
    return Finding(check, Level.WARNING, text, remedy)


def problem(check: str, text: str, remedy: str) -> Finding:
    return Finding(check, Level.PROBLEM, text, remedy)
