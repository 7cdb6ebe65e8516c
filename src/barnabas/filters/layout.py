"""Layout of a row: the slot of each part of a record, and its decoder.

When a filter only names fields of a JSON value, only those fields become objects; msgspec skips the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from barnabas.filters.binding import ROOTS, Comprehension, HasRoot, HasRootField, Root, RootField
from barnabas.filters.moments import Timestamp
from barnabas.filters.syntax import SyntaxNode, children_of

NO_TIMESTAMP = -1
MILLISECOND = 1_000_000

Decode = Callable[[bytes], Any]


class Missing(NamedTuple):
    """Placeholder for a part that the record lacks."""

    reason: str


NO_FIELD = Missing("no such field")
NO_OBJECT = Missing("not a JSON object")


class SlotSource(NamedTuple):
    """`load` converts the record's `source` into a value of the row."""

    source: str
    load: Callable[[Any], Any]


class RowLayout:
    """Slots of a row: the roots that a tree names, then the variables of its macros."""

    def __init__(self, tree: SyntaxNode, decode_value: Decode | None = None) -> None:
        nodes = list(_walk(tree))
        fields: dict[str, list[str]] = defaultdict(list)
        for node in nodes:
            if isinstance(node, (RootField, HasRootField)) and node.field not in fields[node.root]:
                fields[node.root].append(node.field)
        root_slots = {node.name for node in nodes if isinstance(node, (Root, HasRoot))}
        self._attributes: dict[tuple[str, str], str] = {}
        self._slots: dict[str, int] = {}
        self.parts: list[SlotSource] = []
        for root in sorted((root_slots | fields.keys()) & ROOTS.keys()):
            self._slots[root] = len(self.parts)
            in_struct = root in ("key", "value") and root not in root_slots
            self.parts.append(self._part(root, fields[root] if in_struct else None, decode_value))
        for node in nodes:
            if isinstance(node, Comprehension):
                self._slots[node.variable] = len(self._slots)
        self.variables = [None] * (len(self._slots) - len(self.parts))

    def slot(self, name: str) -> int:
        return self._slots[name]

    def attribute(self, root: str, field: str) -> str | None:
        """Attribute of the struct that holds the field; None if the key or value is decoded whole."""
        return self._attributes.get((root, field))

    @classmethod
    def of_names(cls, tree: SyntaxNode, names: Iterable[str]) -> RowLayout:
        """Layout for rows that the caller fills."""
        layout = cls(tree)
        loops = [name for name in layout._slots if name not in ROOTS]
        layout._slots = {name: at for at, name in enumerate([*names, *loops])}
        layout.variables = [None] * len(loops)
        return layout

    def _part(self, root: str, fields: list[str] | None, decode_value: Decode | None) -> SlotSource:
        source = ROOTS[root]
        if root == "value" and decode_value is not None:
            return SlotSource(source, _present(root, _checked(decode_value)))
        if root not in ("key", "value"):
            return SlotSource(source, _LOADERS[root])
        if fields is None:
            return SlotSource(source, _present(root, _object_or_text))
        names = {f"f{at}": field for at, field in enumerate(fields)}
        self._attributes.update({(root, field): name for name, field in names.items()})
        return SlotSource(source, _struct_loader(root, names))


def _walk(node: SyntaxNode) -> Iterable[SyntaxNode]:
    yield node
    inner = (node.base, node.predicate) if isinstance(node, Comprehension) else children_of(node)
    for child in inner:
        yield from _walk(child)


def _present(root: str, load: Callable[[Any], Any]) -> Callable[[Any], Any]:
    missing = Missing(f"no such field: {root}")
    return lambda data: missing if data is None else load(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


_as_object = msgspec.json.Decoder(dict[str, Any])


def _object_or_text(data: bytes) -> Any:
    try:
        return _as_object.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _text(data)


def _checked(decode: Decode) -> Decode:
    def load(data: bytes) -> Any:
        try:
            return decode(data)
        except ValueError as error:
            return Missing(f"the value cannot be decoded: {error}")

    return load


def _struct_loader(root: str, names: dict[str, str]) -> Callable[[Any], Any]:
    kind = msgspec.defstruct("Fields", [(name, Any, NO_FIELD) for name in names], rename=names, gc=False)
    decode = msgspec.json.Decoder(kind).decode
    absent = kind(*[Missing(f"no such field: {root}")] * len(names))
    no_object = kind(*[NO_OBJECT] * len(names))

    def load(data: Any) -> Any:
        if data is None:
            return absent
        try:
            return decode(data)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return no_object

    return load


def _headers(data: Any) -> dict[str, str | None]:
    """The last header wins if a name occurs twice; the columnar reader passes maps, not pairs."""
    pairs = [(pair["key"], pair["value"]) if isinstance(pair, dict) else pair for pair in data or ()]
    return {name: None if value is None else _text(value) for name, value in pairs}


def _milliseconds(data: int) -> Any:
    return Missing("no such field: timestampMs") if data == NO_TIMESTAMP else data


def _timestamp(data: int) -> Any:
    try:
        found = _milliseconds(data)
        return found if isinstance(found, Missing) else Timestamp(found * MILLISECOND)
    except ValueError as error:
        return Missing(str(error))


_LOADERS: dict[str, Callable[[Any], Any]] = {
    "keyAsText": _present("keyAsText", _text),
    "valueAsText": _present("valueAsText", _text),
    "headers": _headers,
    "timestampMs": _milliseconds,
    "timestamp": _timestamp,
    "partition": lambda given: given,
    "offset": lambda given: given,
}
