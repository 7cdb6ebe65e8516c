"""Definition of a setting: type, parsing, formatting and validation of its values.

Values are parsed exactly as by Kafka's ConfigDef, so that a `server.properties` has the same meaning here: no units, no
underscores in numbers; lists are separated by commas, and duplicate items are dropped.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeAlias

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1


class ConfigError(ValueError):
    """Invalid configuration; the text names the setting, its value and how to correct it."""


class SettingKind(IntEnum):
    """Type of a value; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(IntEnum):
    """Kafka's dynamic update mode of a broker setting. Topic and group settings can always be changed."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


class SettingCheck(Protocol):
    """Validator of a setting's value."""

    allowed: str
    """Allowed values, for the documentation, such as `0 or more`."""

    def problem(self, value: Value) -> str | None: ...


class Setting(NamedTuple):
    name: str
    kind: SettingKind
    default: str | None
    documentation: str
    check: SettingCheck | None = None
    mode: UpdateMode = UpdateMode.READ_ONLY
    internal: bool = False
    """Internal settings take effect, but are not described, as in Kafka."""

    @property
    def sensitive(self) -> bool:
        return self.kind is SettingKind.PASSWORD

    def parse(self, text: str) -> Value:
        """Parse and validate a value; ConfigError if it is invalid."""
        try:
            value = _read(self.kind, text.strip())
        except ValueError as error:
            raise self.wrong(text, str(error)) from None
        problem = self.check.problem(value) if self.check is not None else None
        if problem is not None:
            raise self.wrong(text, problem)
        return value

    def wrong(self, text: str, reason: str) -> ConfigError:
        shown = "[hidden]" if self.sensitive else text
        return ConfigError(f"Invalid value {shown} for configuration {self.name}: {reason}")

    @property
    def default_value(self) -> Value:
        return None if self.default is None else _read(self.kind, self.default)


_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)
# Patterns here must not backtrack far: `[0-9]+\\.?[0-9]*` took 30 s to reject 32,000 digits and a letter.
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_BITS = {SettingKind.SHORT: 15, SettingKind.INT: 31, SettingKind.LONG: 63}


def _read(kind: SettingKind, text: str) -> Value:
    if kind in _BITS:
        return _read_whole_number(kind, text)
    if kind is SettingKind.BOOLEAN:
        return _read_boolean(text)
    if kind is SettingKind.DOUBLE:
        return _read_number(text)
    if kind is SettingKind.LIST:
        return _read_list(text)
    return text


def _read_whole_number(kind: SettingKind, text: str) -> int:
    limit = 1 << _BITS[kind]
    if not _WHOLE_NUMBER.fullmatch(text) or not -limit <= int(text) < limit:
        raise ValueError(
            f"Not a number of type {kind.name}. Write an integer of at most {limit - 1}, without a unit"
        )
    return int(text)


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.strip() for item in text.split(","))) if text else ()


def _read_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return lowered == "true"


def _read_number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError("Not a number of type DOUBLE. Write a number such as 0.5")
    return float(text)


def format_value(value: Value) -> str | None:
    """Format a value as DescribeConfigs returns it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)
