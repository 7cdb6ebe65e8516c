"""Parsing and comparing schemas off the event loop: in threads if quick, otherwise in the worker process.

Protobuf uses separate threads, as each waits for protoc.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.services.registry import errors
from barnabas.services.registry.compatibility.checking import find_problems
from barnabas.services.registry.formats.parser import ParsedSchema, Text, parse
from barnabas.services.registry.limits import SchemaLimits, StepBudget, TooComplexError
from barnabas.services.registry.model import CompatibilityLevel, SchemaText, SchemaType
from barnabas.services.registry.subjects import Dependency

if TYPE_CHECKING:
    from barnabas.services.registry.worker import ComparisonWorker

THREADS = 4
PROTOC_PROCESSES = 2
MAX_REMEMBERED = 10_000  # cached facts and comparison results; each takes about 200 bytes
MAX_REMEMBERED_CHARACTERS = 500
MAX_SLOW = 16  # comparisons of one request in the worker process: a transitive level may have many versions

Key = tuple[int, int, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """Result of parsing a text. `identity` is a digest that equivalent texts share."""

    identity: bytes
    fault: str


@dataclass(frozen=True, slots=True)
class Submission:
    """The text to store, possibly normalized, and the original text."""

    facts: SchemaFacts
    kept: str
    text: str


class SchemaWork:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "schemas")
        self._protoc = ThreadPoolExecutor(PROTOC_PROCESSES, "protoc")
        self._worker: ComparisonWorker | None = None  # created on first use
        self._known_facts: dict[Key, SchemaFacts] = {}
        self._known_problems: dict[tuple[CompatibilityLevel, Key, Key], tuple[str, ...]] = {}

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
        for pool in (self._threads, self._protoc):
            pool.shutdown(wait=False, cancel_futures=True)

    async def submission(
        self, schema: SchemaText, needed: tuple[Dependency, ...], *, normalize: bool
    ) -> Submission:
        """Parse a submitted text; error 42201 describes a syntax error."""

        def work() -> Submission:
            parsed = parse(schema, needed)
            kept = parsed.normalized() if normalize else parsed.text
            return Submission(_facts(parsed), kept, parsed.text)

        return await self._run(schema.type, work)

    async def facts(self, schema: SchemaText, needed: tuple[Dependency, ...]) -> SchemaFacts:
        """Facts of a registered version, cached."""
        key = _key((schema, needed))
        found = self._known_facts.get(key)
        if found is None:
            found = await self._run(schema.type, lambda: _facts(parse(schema, needed)))
            _remember(self._known_facts, key, found)
        return found

    async def rendered(self, schema: SchemaText, needed: tuple[Dependency, ...], format_name: str) -> str:
        return await self._run(schema.type, lambda: parse(schema, needed).rendered(format_name))

    async def problems(self, level: CompatibilityLevel, new: Text, older: Sequence[Text]) -> list[str]:
        """Problems of the first incompatible version, as with Confluent. `older` is sorted from newest to oldest."""
        slow = 0
        for old in older:
            key = (level, _key(new), _key(old))
            found = self._known_problems.get(key)
            if found is None:
                try:
                    found = await self._compare_quickly(level, new, old)
                except TooComplexError:
                    slow += 1
                    if slow > MAX_SLOW:
                        raise errors.too_complex() from None
                    found = await self._compare_slowly(level, new, old)
                if sum(map(len, found)) < MAX_REMEMBERED_CHARACTERS:
                    _remember(self._known_problems, key, found)
            if found:
                return list(found)
        return []

    async def _compare_quickly(self, level: CompatibilityLevel, new: Text, old: Text) -> tuple[str, ...]:
        def work() -> tuple[str, ...]:
            parsed = [(schema.type, parse(schema, needed)) for schema, needed in (new, old)]
            return tuple(find_problems(level, parsed[0], parsed[1], StepBudget(SchemaLimits.quick_steps)))

        return await self._run(new[0].type, work)

    async def _compare_slowly(self, level: CompatibilityLevel, new: Text, old: Text) -> tuple[str, ...]:
        if self._worker is None:
            from barnabas.services.registry.worker import ComparisonWorker

            self._worker = ComparisonWorker()
        try:
            return tuple(await self._worker.compare(level, new, old))
        except TooComplexError:
            raise errors.too_complex() from None

    async def _run(self, kind: SchemaType, work: Callable[[], T]) -> T:
        pool = self._protoc if kind is SchemaType.PROTOBUF else self._threads
        return await asyncio.get_running_loop().run_in_executor(pool, work)


def _facts(parsed: ParsedSchema) -> SchemaFacts:
    identity = hashlib.sha256(parsed.identity.encode("utf-8", "surrogatepass")).digest()
    return SchemaFacts(identity, parsed.fault)


def _key(text: Text) -> Key:
    """Hash key in place of the text, which may be long. Text hashes depend on a secret of the process."""
    schema, needed = text
    inside = (schema.type, schema.text, tuple((one.name, one.schema.text) for one in needed))
    return hash(inside), len(schema.text), len(needed)


def _remember(known: dict[Any, Any], key: Any, value: Any) -> None:
    known[key] = value
    if len(known) > MAX_REMEMBERED:
        del known[next(iter(known))]
