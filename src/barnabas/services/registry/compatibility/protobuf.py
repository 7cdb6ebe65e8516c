"""Protobuf: compatibility of a changed file with messages written before. Field numbers matter, names do not.

Kinds of problems are named as in Confluent's registry. Compatible changes: adding or removing fields, adding messages,
renaming, and changes of enums.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from barnabas.services.registry.formats.parser import Path
from barnabas.services.registry.formats.protobuf import ProtobufSchema
from barnabas.services.registry.limits import StepBudget

_MESSAGE, _GROUP, _ENUM = 11, 10, 14
_REPEATED, _REQUIRED = 3, 2
# Groups of wire-compatible types.
_ALIKE = {
    **dict.fromkeys((3, 4, 5, 8, 13, _ENUM), "varint"),
    **dict.fromkeys((17, 18), "zigzag"),
    **dict.fromkeys((7, 15), "fixed32"),
    **dict.fromkeys((6, 16), "fixed64"),
    **dict.fromkeys((9, 12), "bytes"),
    1: "double",
    2: "float",
    _MESSAGE: "message",
    _GROUP: "group",
}
_NUMERIC = frozenset({"varint", "zigzag", "fixed32", "fixed64", "double", "float"})


MAX_PROBLEMS = 100


def problems(reader: ProtobufSchema, writer: ProtobufSchema, budget: StepBudget) -> list[str]:
    """The first problems, up to a limit; the comparison is charged to the step budget."""
    return _Comparison(_Types(reader), _Types(writer), budget).compare()


def _problem(kind: str, where: Path, text: str) -> str:
    return f'{{errorType:"{kind}", description:"The {text} at path \'{where}\'"}}'


class _Types:
    """Messages by full name, as in field types: `.package.Outer.Inner`."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self.file = schema.file
        self.messages: dict[str, Any] = {}
        self.imported: set[str] = set()
        for file in schema.files.file:
            prefix = f".{file.package}" if file.package else ""
            for message in file.message_type:
                self._add(message, prefix, is_imported=file.name != self.file.name)

    def _add(self, message: Any, prefix: str, *, is_imported: bool) -> None:
        name = f"{prefix}.{message.name}"
        if is_imported and name not in self.messages:
            self.imported.add(name)
        self.messages[name] = message
        for nested in message.nested_type:
            self._add(nested, name, is_imported=is_imported)

    def local(self, name: str) -> str:
        """Name without the package, which may change."""
        prefix = f".{self.file.package}." if self.file.package else "."
        return name.removeprefix(prefix)

    def entry(self, one: Any) -> Any:
        """The (key, value) message of a map field."""
        found = self.messages.get(one.type_name) if one.type == _MESSAGE else None
        return found if found is not None and found.options.map_entry else None


@dataclass(slots=True)
class _Comparison:
    reader: _Types
    writer: _Types
    budget: StepBudget
    found: list[str] = field(default_factory=list)
    _compared: set[tuple[str, str]] = field(default_factory=set)

    def compare(self) -> list[str]:
        self._messages(self.reader.file.message_type, self.writer.file.message_type, Path("#/"))
        return self.found

    def _say(self, kind: str, where: Path, text: str) -> None:
        if len(self.found) < MAX_PROBLEMS:
            self.found.append(_problem(kind, where, text))

    def _messages(self, own: Any, others: Any, where: Path) -> None:
        known = {message.name: message for message in own}
        for other in others:
            if other.options.map_entry:
                continue
            if other.name not in known:
                self._say("MESSAGE_REMOVED", where / f"{other.name}", "message was removed")
            else:
                self._message(known[other.name], other, where / f"{other.name}")

    def _message(self, own: Any, other: Any, where: Path) -> None:
        self.budget.spend(1 + (len(own.field) + len(other.field)) // 4)
        known = {one.number: one for one in own.field}
        before = {one.number: one for one in other.field}
        for number, one in before.items():
            if number in known:
                self._field(known[number], one, where / f"/{number}")
            else:
                self._removed(one, other, where / f"/{number}")
        for number, one in known.items():
            if number not in before and one.label == _REQUIRED:
                self._say("REQUIRED_FIELD_ADDED", where / f"/{number}", "required field is new")
        self._oneofs(own, other, where)
        self._messages(own.nested_type, other.nested_type, where / "/")

    def _removed(self, one: Any, message: Any, where: Path) -> None:
        if one.label == _REQUIRED:
            self._say("REQUIRED_FIELD_REMOVED", where, "required field was removed")
        elif _oneof(one) is not None:
            self._say(
                "ONEOF_FIELD_REMOVED",
                where,
                f"field of oneof {message.oneof_decl[one.oneof_index].name} was removed",
            )

    def _oneofs(self, own: Any, other: Any, where: Path) -> None:
        """A oneof makes independent fields exclusive: only a single field may move to a new oneof."""
        before = {one.number: one for one in other.field}
        fields: dict[int | None, list[Any]] = {}
        for one in own.field:
            fields.setdefault(_oneof(one), []).append(one)
        for at, declared in enumerate(own.oneof_decl):
            inside = fields.get(at, [])
            moved = [one for one in inside if one.number in before and _oneof(before[one.number]) is None]
            stayed = [
                one for one in inside if one.number in before and _oneof(before[one.number]) is not None
            ]
            path = where / f"/{declared.name}"
            if len(moved) > 1:
                self._say("MULTIPLE_FIELDS_MOVED_TO_ONEOF", path, "fields were independent")
            elif moved and stayed:
                self._say("FIELD_MOVED_TO_EXISTING_ONEOF", path, f"field {moved[0].name} was independent")

    def _field(self, own: Any, other: Any, where: Path) -> None:
        entry, before = self.reader.entry(own), self.writer.entry(other)
        if (entry is None) != (before is None):
            self._say("FIELD_KIND_CHANGED", where, "field is a map in one of the schemas")
        elif entry is not None:
            for at in (0, 1):
                self._type(entry.field[at], before.field[at], where)
        else:
            self._type(own, other, where)
            self._label(own, other, where)

    def _type(self, own: Any, other: Any, where: Path) -> None:
        kind, before = _ALIKE[own.type], _ALIKE[other.type]
        if kind != before:
            name = (
                "FIELD_SCALAR_KIND_CHANGED"
                if not {kind, before} & {"message", "group"}
                else "FIELD_KIND_CHANGED"
            )
            self._say(name, where, f"field was written as {before} and is read as {kind}")
        elif kind in ("message", "group"):
            self._named(own.type_name, other.type_name, where)

    def _named(self, own: str, other: str, where: Path) -> None:
        if self.reader.local(own) != self.writer.local(other):
            self._say("FIELD_NAMED_TYPE_CHANGED", where, f"field was a {other} and is a {own}")
        elif own in self.reader.imported and (own, other) not in self._compared:
            self._compared.add((own, other))  # messages of this file are compared separately
            inside, before = self.reader.messages.get(own), self.writer.messages.get(other)
            if inside is not None and before is not None:
                self._message(inside, before, where)

    def _label(self, own: Any, other: Any, where: Path) -> None:
        """Compare labels. A singular field takes the last of several values but cannot read packed numbers."""
        if (own.label == _REPEATED) != (other.label == _REPEATED) and _ALIKE[own.type] in _NUMERIC:
            self._say("FIELD_NUMERIC_LABEL_CHANGED", where, "numeric field is repeated in one of the schemas")
        if own.label == _REQUIRED and other.label != _REQUIRED:
            self._say("REQUIRED_FIELD_ADDED", where, "field is required now")


def _oneof(one: Any) -> int | None:
    return one.oneof_index if one.HasField("oneof_index") and not one.proto3_optional else None
