"""Parses schema texts by format, with a cache of parsed schemas for later comparisons."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from barnabas.services.registry.errors import empty_schema, unreadable_schema
from barnabas.services.registry.limits import limits
from barnabas.services.registry.model import SchemaText, SchemaType
from barnabas.services.registry.subjects import Dependency

# -- JSON of clients: bounded depth and number of values, and error positions ---------------------------

# Comparisons recurse: 170 levels still fit into Python's limit. A record in an optional field takes four levels.
DEEPEST = 128
MAX_STEP_CHARACTERS = 100
MAX_PATH_CHARACTERS = 1_000
MAX_REASON_CHARACTERS = 1_000


class Path:
    """A position such as `$.properties.name`, linked to its parent.

    It is formatted only for errors: names may be long, and most positions are never shown.
    """

    __slots__ = ("around", "step")

    def __init__(self, step: str, around: Path | None = None) -> None:
        self.step = step
        self.around = around

    def __truediv__(self, step: str) -> Path:
        return Path(step, self)

    def __str__(self) -> str:
        steps, path = [], self
        while path.around is not None:
            steps.append(_clipped(path.step, MAX_STEP_CHARACTERS))
            path = path.around
        steps.append(_clipped(path.step, MAX_STEP_CHARACTERS))
        return _clipped("".join(reversed(steps)), MAX_PATH_CHARACTERS)


class SchemaSyntaxError(Exception):
    """Syntax error at a position such as `$.fields[2].type`; no position if the reason includes it."""

    def __init__(self, where: str | Path, reason: str) -> None:
        path = _clipped(str(where), MAX_PATH_CHARACTERS)
        reason = _clipped(reason, MAX_REASON_CHARACTERS)
        super().__init__(f"{reason} (at {path})" if path else reason)


def read_json(text: str) -> Any:
    """Parse JSON, keeping the order of keys; SchemaSyntaxError gives line and column."""
    try:
        value = load_json(text)
    except RecursionError:
        raise SchemaSyntaxError("$", f"nested deeper than {DEEPEST}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise SchemaSyntaxError(where, f"not valid JSON: {error.msg}") from None
    except ValueError as error:
        raise SchemaSyntaxError("$", f"not valid JSON: {error}") from None
    count_values(value)
    return value


def load_json(text: str | bytes) -> Any:
    """Parse strict JSON: ValueError for NaN, Infinity, and numbers out of the range of a double."""
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite)


def count_values(value: Any, deepest: int = DEEPEST) -> int:
    """Number of objects and lists; SchemaSyntaxError if there are too many or they are nested too deeply."""
    level, depth, count = _containers([value]), 0, 0
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > deepest:
            raise SchemaSyntaxError("$", f"nested deeper than {deepest}")
        if count > limits.max_values:
            raise SchemaSyntaxError(
                "$", f"more than {limits.max_values} objects and lists (--limit max-values)"
            )
        level = [child for one in level for child in _containers(one)]
    return count


def _containers(value: Any) -> list[Any]:
    values = value.values() if isinstance(value, dict) else value
    return [child for child in values if isinstance(child, dict | list)]


def compact(value: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


def _clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]}...{text[-limit // 2 :]}"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{_clipped(text, MAX_STEP_CHARACTERS)} is too large for a number")
    return number


Text = tuple[SchemaText, tuple[Dependency, ...]]
"""A schema and its dependencies."""

BYTES_PER_CHARACTER = 12
"""Memory of a parsed schema per character of text: measured 6 to 10 for large schemas written by hand."""
LEAST_BYTES = 2_000


class ParsedSchema(Protocol):
    @property
    def text(self) -> str:
        """Text as registered."""
        ...

    @property
    def identity(self) -> str:
        """Canonical form, equal for equivalent texts."""
        ...

    @property
    def fault(self) -> str:
        """Reason to reject the schema unless it is registered already, as other registries accept it; else empty."""
        ...

    def normalized(self) -> str:
        """Canonical text, without insignificant differences."""
        ...

    def rendered(self, format_name: str) -> str:
        """Text for the query parameter `format`; the registered text for an unknown format."""
        ...


Key = tuple[SchemaType, str, tuple[tuple[str, str], ...]]


class _Cache:
    """LRU cache of parsed schemas, limited by `limits.cache_bytes`. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Key, ParsedSchema] = {}
        self.bytes = 0

    def get(self, key: Key) -> ParsedSchema | None:
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None:
                self._kept[key] = found
            return found

    def put(self, key: Key, parsed: ParsedSchema) -> None:
        with self._lock:
            if key not in self._kept:
                self.bytes += _size(key)
            self._kept[key] = parsed
            while self.bytes > limits.cache_bytes:
                oldest = next(iter(self._kept))
                del self._kept[oldest]
                self.bytes -= _size(oldest)


def _size(key: Key) -> int:
    _, text, dependencies = key
    characters = len(text) + sum(len(other) for _, other in dependencies)
    return LEAST_BYTES + characters * BYTES_PER_CHARACTER


cache = _Cache()


def parse(schema: SchemaText, dependencies: Sequence[Dependency]) -> ParsedSchema:
    """Parse a schema; error 42201 gives reason and position. Slow, and may run protoc: call in a thread."""
    if not schema.text.strip():
        raise empty_schema()
    key = (schema.type, schema.text, tuple((one.name, one.schema.text) for one in dependencies))
    parsed = cache.get(key)
    if parsed is None:
        try:
            parsed = _parse(*key)
        except SchemaSyntaxError as error:
            raise unreadable_schema(schema.type, str(error)) from None
        except RecursionError:
            raise unreadable_schema(schema.type, "nested too deeply") from None
        cache.put(key, parsed)
    return parsed


def _parse(kind: SchemaType, text: str, dependencies: tuple[tuple[str, str], ...]) -> ParsedSchema:
    if kind is SchemaType.AVRO:
        from barnabas.services.registry.formats.avro import parse_avro

        return parse_avro(text, [one for _, one in dependencies])
    if kind is SchemaType.JSON:
        from barnabas.services.registry.formats.json_schema import parse_json_schema

        return parse_json_schema(text, dict(dependencies))
    from barnabas.services.registry.formats.protobuf import parse_protobuf

    return parse_protobuf(text, dict(dependencies))
