"""JSON from strangers: bounded in depth, and with a place to point at when it is wrong."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 64


class SchemaSyntaxError(Exception):
    """Something is wrong at a place such as `$.fields[2].type`; at none if the reason has it."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{reason} (at {where})" if where else reason)


def read_json(text: str) -> Any:
    """The value, with the keys of objects in their order; SchemaSyntaxError says the line and the column."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise SchemaSyntaxError("$", f"it is nested deeper than {DEEPEST}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise SchemaSyntaxError(where, f"this is no JSON: {error.msg}") from None
    except ValueError as error:
        raise SchemaSyntaxError("$", f"this is no JSON: {error}") from None
    check_depth(value)
    return value


def check_depth(value: Any, deepest: int = DEEPEST) -> None:
    level, depth = [value], 0
    while level:
        if depth > deepest:
            raise SchemaSyntaxError("$", f"it is nested deeper than {deepest}")
        level = [child for one in level for child in children(one)]
        depth += 1


def children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def compact(value: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
