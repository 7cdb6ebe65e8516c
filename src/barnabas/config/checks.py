"""Validators of setting values. Messages are Kafka's where Kafka has one."""

from __future__ import annotations

import re

from barnabas.config.setting import Value


class AtLeast:
    __slots__ = ("allowed", "low")

    def __init__(self, low: float) -> None:
        self.low = low
        self.allowed = f"{low} or more"

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, int | float)
        return f"Value must be at least {self.low}" if value < self.low else None


class Between:
    __slots__ = ("allowed", "high", "low")

    def __init__(self, low: float, high: float) -> None:
        self.low = low
        self.high = high
        self.allowed = f"{low} to {high}"

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, int | float)
        if value < self.low:
            return f"Value must be at least {self.low}"
        return f"Value must be no more than {self.high}" if value > self.high else None


class BetweenOr(Between):
    """A range, and one special value outside of it."""

    __slots__ = ("special",)

    def __init__(self, low: float, high: float, special: float) -> None:
        super().__init__(low, high)
        self.special = special
        self.allowed = f"{low} to {high}, or {special}"

    def problem(self, value: Value) -> str | None:
        return None if value == self.special else super().problem(value)


class OneOf:
    __slots__ = ("_accepted", "_ignore_case", "allowed", "choices")

    def __init__(self, *choices: str, ignore_case: bool = False) -> None:
        self.choices = choices
        self.allowed = ", ".join(choices)
        self._ignore_case = ignore_case
        self._accepted = {choice.lower() for choice in choices} if ignore_case else set(choices)

    def problem(self, value: Value) -> str | None:
        text = str(value)
        if (text.lower() if self._ignore_case else text) in self._accepted:
            return None
        return f"String must be one of: {self.allowed}"


class ListCheck:
    """A list with items from the choices."""

    __slots__ = ("allowed", "choices")

    def __init__(self, *choices: str) -> None:
        self.choices = choices
        self.allowed = f"a list of {', '.join(choices)}"

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, tuple)
        if any(item not in self.choices for item in value):
            return f"String must be one of: {', '.join(self.choices)}"
        return None


class NonEmptyItems:
    """A list of names."""

    __slots__ = ()

    allowed = "a list without empty items"

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, tuple)
        return f"Must be {self.allowed}" if "" in value else None


class Matching:
    """A string that matches a pattern, or an empty one."""

    __slots__ = ("_pattern", "allowed")

    def __init__(self, pattern: str, allowed: str) -> None:
        self._pattern = pattern  # compiled on use, to keep imports fast
        self.allowed = allowed

    def problem(self, value: Value) -> str | None:
        if not value or re.fullmatch(self._pattern, str(value)):
            return None
        return f"Expected {self.allowed}"


class ReplicaList:
    """Throttled replicas: `*`, nothing, or partition:broker pairs."""

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        self.allowed = "* or [partitionId]:[brokerId],[partitionId]:[brokerId],..."

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, tuple)
        if value in ((), ("*",)) or all(re.fullmatch(r"[0-9]+:[0-9]+", item) for item in value):
            return None
        return f"Must be {self.allowed}"
