"""Formats a FileDescriptorProto as .proto text, which protoc compiles to the same descriptor.

Custom options (extensions of google.protobuf.*Options) are omitted: in a descriptor they are bytes that cannot be
decoded without their definition.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

_TYPES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
_GROUP, _STRING, _BYTES, _ENUM = 10, 9, 12, 14
_LABELS = {1: "optional", 2: "required", 3: "repeated"}
_REPEATED, _REQUIRED = 3, 2
MAX_FIELD = 536_870_911
MAX_ENUM = 2_147_483_647
_EDITIONS = {998: "proto2", 999: "proto3", 1000: "2023", 1001: "2024"}


def proto_text(file: Any) -> str:
    return "\n".join(_Writer(file).lines()) + "\n"


class _Writer:
    def __init__(self, file: Any) -> None:
        self.file = file
        self.syntax = file.syntax or "proto2"

    def lines(self) -> Iterator[str]:
        if self.syntax == "editions":
            yield f'edition = "{_EDITIONS.get(self.file.edition, self.file.edition)}";'
        else:
            yield f'syntax = "{self.syntax}";'
        if self.file.package:
            yield f"package {self.file.package};"
        types = (self._message(message, "") for message in self.file.message_type)
        enums = (self._enum(enum, "") for enum in self.file.enum_type)
        services = (self._service(service) for service in self.file.service)
        yield from _block(self._imports())
        yield from _block(_options(self.file.options, ""))
        yield from _block(chain.from_iterable([*types, *enums]))
        yield from _block(self._extensions(self.file.extension, ""))
        yield from _block(chain.from_iterable(services))

    def _imports(self) -> Iterator[str]:
        for at, name in enumerate(self.file.dependency):
            kind = "public " if at in self.file.public_dependency else ""
            kind = "weak " if at in self.file.weak_dependency else kind
            yield f"import {kind}{_quoted(name)};"

    def _message(self, message: Any, indent: str, head: str | None = None) -> Iterator[str]:
        inner = indent + "  "
        yield f"{indent}{head or f'message {message.name}'} {{"
        yield from _options(message.options, inner)
        yield from self._fields(message, inner)
        groups = {field.type_name.rpartition(".")[2] for field in message.field if field.type == _GROUP}
        for nested in message.nested_type:
            if not nested.options.map_entry and nested.name not in groups:
                yield from self._message(nested, inner)
        for enum in message.enum_type:
            yield from self._enum(enum, inner)
        yield from self._extensions(message.extension, inner)
        for span in message.extension_range:
            yield f"{inner}extensions {_span(span.start, span.end - 1, MAX_FIELD)};"
        yield from _reserved(message, inner, MAX_FIELD, 1)
        yield f"{indent}}}"

    def _fields(self, message: Any, indent: str) -> Iterator[str]:
        entries = {one.name: one for one in message.nested_type if one.options.map_entry}
        nested = {one.name: one for one in message.nested_type}
        members: dict[int, list[Any]] = {}
        for field in message.field:
            if field.HasField("oneof_index") and not field.proto3_optional:
                members.setdefault(field.oneof_index, []).append(field)
        for field in message.field:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, indent, entries, nested)
            elif field.oneof_index in members:
                yield f"{indent}oneof {message.oneof_decl[field.oneof_index].name} {{"
                yield from _options(message.oneof_decl[field.oneof_index].options, indent + "  ")
                for one in members.pop(field.oneof_index):
                    yield from self._field(one, indent + "  ", entries, nested, in_oneof=True)
                yield f"{indent}}}"

    def _field(
        self,
        field: Any,
        indent: str,
        entries: dict[str, Any],
        nested: dict[str, Any],
        *,
        in_oneof: bool = False,
    ) -> Iterator[str]:
        short = field.type_name.rpartition(".")[2]
        label = "" if in_oneof else self._label(field)
        if field.type == _GROUP and short in nested:
            yield from self._message(nested[short], indent, f"{label}group {short} = {field.number}")
            return
        entry = entries.get(short) if field.label == _REPEATED else None
        if entry is not None:
            key, value = entry.field
            label, kind = "", f"map<{_type(key)}, {_type(value)}>"
        else:
            kind = _type(field)
        yield f"{indent}{label}{kind} {field.name} = {field.number}{_field_options(field)};"

    def _label(self, field: Any) -> str:
        if field.label == _REPEATED:
            return "repeated "
        if self.syntax == "proto2":
            return f"{_LABELS[field.label]} "
        return "optional " if field.proto3_optional else ""

    def _enum(self, enum: Any, indent: str) -> Iterator[str]:
        inner = indent + "  "
        yield f"{indent}enum {enum.name} {{"
        yield from _options(enum.options, inner)
        for value in enum.value:
            yield f"{inner}{value.name} = {value.number}{_bracketed(_option_texts(value.options))};"
        yield from _reserved(enum, inner, MAX_ENUM, 0)
        yield f"{indent}}}"

    def _extensions(self, extensions: Any, indent: str) -> Iterator[str]:
        for field in extensions:
            yield f"{indent}extend {field.extendee} {{"
            yield from self._field(field, indent + "  ", {}, {})
            yield f"{indent}}}"

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from _options(service.options, "  ")
        for method in service.method:
            input_type = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            answered = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            options = list(_options(method.options, "    "))
            head = f"  rpc {method.name}({input_type}) returns ({answered})"
            yield from ([f"{head} {{", *options, "  }"] if options else [f"{head};"])
        yield "}"


def _block(lines: Iterable[str]) -> list[str]:
    """Layout of Confluent's registry and Karapace: an empty line before each group of elements, none within."""
    found = list(lines)
    return ["", *found] if found else []


def _type(field: Any) -> str:
    return field.type_name or _TYPES[field.type]


def _field_options(field: Any) -> str:
    texts = []
    if field.HasField("default_value"):
        texts.append(f"default = {_default(field)}")
    if field.HasField("json_name") and field.json_name != _camel(field.name):
        texts.append(f"json_name = {_quoted(field.json_name)}")
    return _bracketed([*texts, *_option_texts(field.options)])


def _default(field: Any) -> str:
    if field.type == _BYTES:
        return f'"{field.default_value}"'  # escaped as C does already
    return _quoted(field.default_value) if field.type == _STRING else field.default_value


def _options(options: Any, indent: str) -> Iterator[str]:
    for text in _option_texts(options):
        yield f"{indent}option {text};"


def _option_texts(options: Any) -> list[str]:
    """Options sorted by name."""
    found = []
    for field, value in sorted(options.ListFields(), key=lambda one: one[0].name):
        if field.is_extension or field.name in ("map_entry", "uninterpreted_option"):
            continue
        values = value if field.is_repeated else [value]
        for one in values:
            if field.message_type is not None:
                found += [f"{field.name}.{text}" for text in _option_texts(one)]
            else:
                found.append(f"{field.name} = {_option_value(field, one)}")
    return found


def _option_value(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    return _quoted(value) if isinstance(value, str) else str(value)


def _reserved(of: Any, indent: str, largest: int, beyond: int) -> Iterator[str]:
    """`beyond` is 1 if range ends are exclusive (messages), 0 if inclusive (enums)."""
    spans = [_span(span.start, span.end - beyond, largest) for span in of.reserved_range]
    if spans:
        yield f"{indent}reserved {', '.join(spans)};"
    if of.reserved_name:
        yield f"{indent}reserved {', '.join(map(_quoted, of.reserved_name))};"


def _span(first: int, last: int, largest: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= largest else last}"


def _bracketed(texts: list[str]) -> str:
    return f" [{', '.join(texts)}]" if texts else ""


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
