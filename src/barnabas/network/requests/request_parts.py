"""Serving a request in parts: chunks of one array of independent elements.

An `ArrayPath` says where requests of an API are split and where the responses of the parts are joined. Arrays
may be nested: a single topic with 50,000 partitions is split as well. The handler gets each part as a
separate request, and between two parts the loop serves others.

Duplicate elements of a request are answered once, unless the API has an error for them: then two are kept in
one part, so that the handler sees them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.common.cooperative import finish
from barnabas.network.requests.time_slices import RequestTurn
from barnabas.protocol.schema import Message, Struct
from barnabas.protocol.wire import STEP
from barnabas.security import RequestContext

if TYPE_CHECKING:
    from barnabas.network.requests.dispatch import Request
    from barnabas.network.requests.routes import HandlerFunction

ONCE, TWICE, ALL = 1, 2, 0
"""Number of duplicate elements that the handler gets."""

# Weight of a null that means everything.
EVERYTHING = 50


class ArrayLevel(NamedTuple):
    """One array on the path to the innermost elements."""

    asked: str
    answered: str  # empty if the response has no such array
    named_by: tuple[str, ...] = ()
    """Fields that identify an element; none for an array of names or numbers."""

    def name(self, item: Any) -> Hashable:
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

    def handle(broker: Any, request: Request, message: Any) -> Any:
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
    function: HandlerFunction, broker: Any, request: Request, message: Any, cut: ArrayPath, of: int
) -> Message | None:
    turn = RequestTurn()
    answers: list[asyncio.Future[Message | None]] = []
    first = cut.levels[0].asked
    items = getattr(message, first)
    if cut.repeats != ALL:
        items = await turn.run(deduplicating(items, cut.levels, cut.repeats))
    for part in slices(items, cut.levels[1:], of):
        one = PartOfRequest(request)
        answer = function(broker, one, with_value(message, first, part))
        if isinstance(answer, Coroutine):
            answer = await answer
        if answer is not None:
            one.respond(answer)
        answers.append(one.answer)
        request.time_budget = max(turn.seconds, one.time_budget)  # it takes long, but it makes progress
        if turn.is_over():
            await turn.rest()
        if request.is_abandoned:
            return None
    return _joined(request, await asyncio.gather(*answers), cut)


def _joined(request: Request, answers: Sequence[Message | None], cut: ArrayPath) -> Message | None:
    """Join the responses. A part that was refused as a whole decides for all; a Produce may need no response."""
    response = answers[0]
    if response is None:
        request.respond_nothing()
        return None
    for answer in answers:
        if getattr(answer, "error_code", 0):
            return answer
    levels = [level.answered for level in cut.levels if level.answered]
    for answer in answers[1:]:
        if answer is not None:
            _join(response, answer, levels)
            _take_longer_wait(response, answer)
    return response


def _take_longer_wait(response: Any, answer: Any) -> None:
    """Keep the longer throttle time of two responses."""
    if getattr(answer, "throttle_time_ms", 0):
        response.throttle_time_ms = max(response.throttle_time_ms, answer.throttle_time_ms)


class InnerRequest:
    """Interface of `Request` for a request inside another one. Its response is a future."""

    __slots__ = ("answer", "api_key", "client_wait", "context", "is_large", "time_budget", "version")

    def __init__(self, api_key: int, version: int, context: RequestContext) -> None:
        self.api_key = api_key
        self.version = version
        self.context = context
        self.client_wait = self.time_budget = 0.0
        self.is_large = True  # it is served in slices, whatever its size
        self.answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

    @property
    def client_id(self) -> str | None:
        return self.context.client_id

    def completed(self, response: Message) -> Message:
        return response

    def respond(self, response: Message) -> None:
        if not self.answer.done():
            self.answer.set_result(response)


class PartOfRequest(InnerRequest):
    """A part of a request of many elements."""

    __slots__ = ("connection",)

    def __init__(self, request: Request) -> None:
        super().__init__(request.api_key, request.version, request.context)
        self.connection = request.connection

    def respond_nothing(self) -> None:
        if not self.answer.done():
            self.answer.set_result(None)


# -- arrays in arrays ----------------------------------------------------------------------------------


def slices(items: Sequence[Any], levels: Sequence[ArrayLevel], of: int) -> Iterator[list[Any]]:
    """Split an array into parts of at most `of` elements, nested ones included; larger elements are split
    inside.
    """
    part: list[Any] = []
    weight = 0
    for item in items:
        added = 1 + _inner_weight(item, levels, of)
        if part and weight + added > of:
            yield part
            part, weight = [], 0
        if added > of and levels:
            level = levels[0]
            for inner in slices(getattr(item, level.asked), levels[1:], of):
                yield [with_value(item, level.asked, inner)]
        else:
            part.append(item)
            weight += added
    if part:
        yield part


def _weight(items: Sequence[Any], levels: Sequence[ArrayLevel], enough: int) -> int:
    """Count the elements, up to `enough`."""
    weight = len(items)
    if levels:
        for item in items:
            if weight > enough:
                break
            weight += _inner_weight(item, levels, enough)
    return weight


def _inner_weight(item: Any, levels: Sequence[ArrayLevel], enough: int) -> int:
    if not levels:
        return 0
    inner = getattr(item, levels[0].asked)
    return EVERYTHING if inner is None else _weight(inner, levels[1:], enough)


def deduplicated(items: Sequence[Any], cut: ArrayPath) -> list[Any]:
    """Merge duplicate elements into one with the inner elements of all."""
    return finish(deduplicating(items, cut.levels, cut.repeats))


def deduplicating(
    items: Sequence[Any], levels: Sequence[ArrayLevel], repeats: int
) -> Generator[None, None, list[Any]]:
    """The same in steps. The innermost elements are kept `repeats` times; null inside means everything, and
    is kept.
    """
    level, inner = levels[0], levels[1:]
    by_name: dict[Hashable, Any] = {}
    again: dict[Hashable, list[Any]] = {}  # duplicates
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
    whole = []
    for number, (name, item) in enumerate(by_name.items(), 1):
        whole.append((yield from _uniting_one([item, *again.get(name, ())], inner, repeats)))
        if not number % STEP:
            yield
    return whole


def _uniting_one(same: list[Any], inner: Sequence[ArrayLevel], repeats: int) -> Generator[None, None, Any]:
    time_budget = inner[0].asked
    together: list[Any] = []
    for number, item in enumerate(same, 1):
        array = getattr(item, time_budget)
        if array is None:
            return with_value(same[0], time_budget, None)
        together += array
        if not number % STEP:
            yield
    return with_value(same[0], time_budget, (yield from deduplicating(together, inner, repeats)))


def with_value(struct: Any, name: str, value: Any) -> Any:
    """Return a copy of a struct with one field replaced."""
    copied = object.__new__(type(struct))
    for field in struct.FIELDS:
        setattr(copied, field.name, value if field.name == name else getattr(struct, field.name))
    return copied


def _join(target: Any, source: Any, levels: Sequence[str]) -> None:
    """Append an array of the source to that of the target; an element that was split is merged again."""
    theirs, ours = getattr(source, levels[0]), getattr(target, levels[0])
    if len(levels) > 1 and ours and theirs and _same(ours[-1], theirs[0]):
        _join(ours[-1], theirs[0], levels[1:])
        theirs = theirs[1:]
    ours.extend(theirs)


def _same(one: Struct, other: Struct) -> bool:
    return all(
        getattr(one, field.name) == getattr(other, field.name)
        for field in one.FIELDS
        if field.wire != "array"
    )
