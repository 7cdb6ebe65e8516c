"""Serving a request in parts: chunks of one array of independent elements.

An `ArrayPath` says where requests of an API are split and where the responses of the parts are joined. Arrays
may be nested: a single topic with 50,000 partitions is split as well. The handler gets each part as a
separate request, and between two parts the loop serves others.

Duplicate elements of a request are answered once, unless the API has an error for them: then two are kept in
one part, so that the handler sees them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Generator, Hashable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from barnabas.common.cooperative import finish
from barnabas.network.requests.request import InnerRequest, Request
from barnabas.network.requests.routes import HandlerFunction, Result
from barnabas.network.requests.time_slices import RequestTurn
from barnabas.protocol.schema import Message, Struct
from barnabas.protocol.wire import STEP

S = TypeVar("S", bound=Struct)
T = TypeVar("T")

ONCE, TWICE, ALL = 1, 2, 0
"""Number of duplicate elements that the handler gets."""

# Weight of a null that means everything.
EVERYTHING = 50

THROTTLE_TIME = "throttle_time_ms"


class ArrayLevel(NamedTuple):
    """One array on the path to the innermost elements."""

    asked: str
    answered: str  # empty if the response has no such array
    named_by: tuple[str, ...] = ()
    """Fields that identify an element; none for an array of names or numbers."""

    def name(self, item: object) -> Hashable:
        return tuple(getattr(item, field) for field in self.named_by) if self.named_by else item


class ArrayPath(NamedTuple):
    """Arrays from the outermost to the innermost one, and the number of duplicates kept in the innermost."""

    levels: tuple[ArrayLevel, ...]
    repeats: int = ONCE

    def is_in(self, cls: type[Message], version: int) -> bool:
        return any(field.name == self.levels[0].asked and field.present_in(version) for field in cls.FIELDS)


def cut_at(*levels: tuple[str, str, tuple[str, ...]] | tuple[str, str], repeats: int = ONCE) -> ArrayPath:
    return ArrayPath(tuple(ArrayLevel(*level) for level in levels), repeats)


def in_chunks(function: HandlerFunction, *cuts: ArrayPath, of: int, always: bool = False) -> HandlerFunction:
    """Wrap a handler so that it gets parts of at most `of` elements of its request.

    The first path that the request's version has is used. Small requests are passed on unchanged or, with
    `always`, without duplicates.
    """

    by_version: dict[int, ArrayPath | None] = {}  # of the one API that is handled

    def handle(broker: object, request: Request, message: Message) -> Result[Message]:
        version = request.version
        if version not in by_version:
            by_version[version] = next((each for each in cuts if each.is_in(type(message), version)), None)
        cut = by_version[version]
        items = getattr(message, cut.levels[0].asked) if cut is not None else None
        if cut is None or items is None:
            return function(broker, request, message)
        if _weight(items, cut.levels[1:], of) > of:
            request.is_large = True
            return _serve(function, broker, request, message, cut, of)
        if always:
            message = with_value(message, cut.levels[0].asked, deduplicated(items, cut))
        return function(broker, request, message)

    return handle


async def _serve(
    function: HandlerFunction, broker: object, request: Request, message: Message, cut: ArrayPath, of: int
) -> Message | None:
    turn = RequestTurn()
    answers: deque[asyncio.Future[Message | None]] = deque()
    first = cut.levels[0].asked
    items = getattr(message, first)
    if cut.repeats != ALL:
        items = await turn.run(deduplicating(items, cut.levels, cut.repeats))
    for part in slices(items, cut.levels[1:], of):
        one = InnerRequest(request.route, request.context, request.connection)
        answer = function(broker, one, with_value(message, first, part))
        if isinstance(answer, Coroutine):
            answer = await answer
        if answer is not None:
            one.respond(answer)
        answers.append(one.future)
        request.time_budget = max(turn.seconds, one.time_budget)  # it takes long, but it makes progress
        if turn.is_over():
            await turn.rest()
        if request.is_abandoned:
            return None
    return await _joined(request, turn, answers, cut)


async def _joined(
    request: Request, turn: RequestTurn, answers: deque[asyncio.Future[Message | None]], cut: ArrayPath
) -> Message | None:
    """Join the responses. A part that was refused as a whole decides for all; a Produce may need no response."""
    levels = [level.answered for level in cut.levels if level.answered]
    response = await answers.popleft()
    if response is None:
        request.respond_nothing()
        return None
    turn.begin()
    while answers and not getattr(response, "error_code", 0):
        if not answers[0].done():
            await asyncio.wait([answers[0]])
            turn.begin()
        answer = answers.popleft().result()
        if getattr(answer, "error_code", 0):
            return answer
        if answer is not None:
            _join(response, answer, levels)
            wait_longer(response, getattr(answer, THROTTLE_TIME, 0))
        if turn.is_over():
            await turn.rest()
    return response


def wait_longer(response: Message, wait_ms: int) -> None:
    """Set the throttle time of a response, if it has the field and not a longer one."""
    set_ms: int | None = getattr(response, THROTTLE_TIME, None)
    if set_ms is not None and set_ms < wait_ms:
        setattr(response, THROTTLE_TIME, wait_ms)


# -- arrays in arrays ----------------------------------------------------------------------------------


def slices(items: Sequence[T], levels: Sequence[ArrayLevel], of: int) -> Iterator[list[T]]:
    """Split an array into parts of at most `of` elements, nested ones included; larger elements are split
    inside.
    """
    part: list[T] = []
    weight = 0
    for item in items:
        added = 1 + _inner_weight(item, levels, of)
        if part and weight + added > of:
            yield part
            part, weight = [], 0
        if added > of and levels:
            assert isinstance(item, Struct)
            level = levels[0]
            for inner in slices(getattr(item, level.asked), levels[1:], of):
                yield [with_value(item, level.asked, inner)]
        else:
            part.append(item)
            weight += added
    if part:
        yield part


def _weight(items: Sequence[object], levels: Sequence[ArrayLevel], enough: int) -> int:
    """Count the elements, up to `enough`."""
    weight = len(items)
    if levels:
        for item in items:
            if weight > enough:
                break
            weight += _inner_weight(item, levels, enough)
    return weight


def _inner_weight(item: object, levels: Sequence[ArrayLevel], enough: int) -> int:
    if not levels:
        return 0
    inner = getattr(item, levels[0].asked)
    return EVERYTHING if inner is None else _weight(inner, levels[1:], enough)


def deduplicated(items: Sequence[T], cut: ArrayPath) -> list[T]:
    """Merge duplicate elements into one with the inner elements of all."""
    return finish(deduplicating(items, cut.levels, cut.repeats))


def deduplicating(
    items: Sequence[T], levels: Sequence[ArrayLevel], repeats: int
) -> Generator[None, None, list[T]]:
    """The same in steps. The innermost elements are kept `repeats` times; null inside means everything, and
    is kept.
    """
    level, inner = levels[0], levels[1:]
    by_name: dict[Hashable, T] = {}
    again: dict[Hashable, list[T]] = {}  # duplicates
    for number, item in enumerate(items):
        name = level.name(item)
        if name in by_name:
            again.setdefault(name, []).append(item)
        else:
            by_name[name] = item
        if not number % STEP:
            yield
    if not inner:
        return [
            each for name, item in by_name.items() for each in (item, *again.get(name, ())[: repeats - 1])
        ]
    joined = []
    for number, (name, item) in enumerate(by_name.items(), 1):
        joined.append((yield from _uniting_one([item, *again.get(name, ())], inner, repeats)))
        if not number % STEP:
            yield
    return joined


def _uniting_one(same: list[T], inner: Sequence[ArrayLevel], repeats: int) -> Generator[None, None, T]:
    first = same[0]
    assert isinstance(first, Struct)
    time_budget = inner[0].asked
    together: list[object] = []
    for number, item in enumerate(same, 1):
        array = getattr(item, time_budget)
        if array is None:
            return with_value(first, time_budget, None)
        together += array
        if not number % STEP:
            yield
    return with_value(first, time_budget, (yield from deduplicating(together, inner, repeats)))


def with_value(struct: S, name: str, value: object) -> S:
    """Return a copy of a struct with one field replaced."""
    copied: S = object.__new__(type(struct))
    for field in struct.FIELDS:
        setattr(copied, field.name, value if field.name == name else getattr(struct, field.name))
    return copied


def _join(target: Struct, source: Struct, levels: Sequence[str]) -> None:
    """Append an array of the source to that of the target; an element that was split is merged again."""
    source_items, ours = getattr(source, levels[0]), getattr(target, levels[0])
    if len(levels) > 1 and ours and source_items and _same(ours[-1], source_items[0]):
        _join(ours[-1], source_items[0], levels[1:])
        source_items = source_items[1:]
    ours.extend(source_items)


def _same(one: Struct, other: Struct) -> bool:
    return all(
        getattr(one, field.name) == getattr(other, field.name)
        for field in one.FIELDS
        if field.wire != "array"
    )
