"""Avro schemas: validated and serialized like the Java library does, which is the form that registries store.

So `{"type": "string"}` becomes `"string"`, and an inherited namespace is omitted: different texts of a schema have the
same stored form. Docs, defaults, aliases and unknown properties are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.services.registry.formats.parser import SchemaSyntaxError, compact, read_json
from barnabas.services.registry.limits import limits

MAX_NAME = 4096  # of a full name, with its namespace
RESOLVED = "resolved"  # format of a schema with its references inlined
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_NAME = r"is not a valid Avro name because it does not match the pattern (?:^|\.)[A-Za-z_][A-Za-z0-9_]*$"
# Properties that Avro defines for some type: as in the Java library, no type keeps them as custom properties.
_DEFINED = frozenset(
    {"type", "name", "namespace", "doc", "fields", "items", "values", "size", "symbols", "aliases"}
)
_OF_A_FIELD = ("name", "type", "doc", "default", "order", "aliases")
_ORDERS = ("ascending", "descending", "ignore")


@dataclass(frozen=True, slots=True)
class AvroSchema:
    text: str
    document: Any
    dependencies: tuple[Any, ...] = ()  # documents in topological order
    fault: str = ""

    @property
    def identity(self) -> str:
        return self.text

    def normalized(self) -> str:
        """Text with custom properties sorted; other properties are in canonical order already."""
        return compact(_sorted(self.document))

    def rendered(self, format_name: str) -> str:
        """Text in a format; `resolved` inlines each reference at its first use."""
        if format_name != RESOLVED or not self.dependencies:
            return self.text
        named = {full_name(one): one for one in self.dependencies if isinstance(one, dict) and "name" in one}
        return compact(_resolved(self.document, None, named))


def parse_avro(text: str, dependencies: Sequence[str] = ()) -> AvroSchema:
    """Parse a schema; SchemaSyntaxError gives reason and position. Invalid names are accepted and reported in `fault`.

    Defaults are not validated against their types, as in Confluent's registry by default.
    """
    names: dict[str, Any] = {}
    others = tuple(_Writer(names).write(_read(one), None, "$") for one in dependencies)
    writer = _Writer(names)
    document = writer.write(_read(text), None, "$")
    return AvroSchema(compact(document), document, others, writer.fault)


def _read(text: str) -> Any:
    try:
        return read_json(text)
    except SchemaSyntaxError:
        if text.strip() in PRIMITIVES:  # a bare word, which the Java parser accepts as a primitive type
            return text.strip()
        raise


class _Writer:
    """Traverses a schema; `names` maps full names to the named types defined so far."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.fault = ""  # the first fault found
        self._characters = 0  # total length of full names

    def write(self, node: Any, space: str | None, where: str) -> Any:
        if isinstance(node, str):
            return self._reference(node, space, where)
        if isinstance(node, list):
            return self._union(node, space, where)
        if not isinstance(node, dict):
            raise SchemaSyntaxError(
                where, f"a schema must be a name, an object or a list, not {compact(node)[:100]}"
            )
        kind = node.get("type")
        if isinstance(kind, dict | list):  # {"type": {"type": "array", ...}}
            return self.write(kind, space, f"{where}.type")
        if kind in PRIMITIVES:
            rest = {name: value for name, value in node.items() if name not in _DEFINED}
            return {"type": kind} | rest if rest else kind
        if not isinstance(kind, str):
            raise SchemaSyntaxError(where, '"type" is missing')
        write = _WRITERS.get(kind)
        return self._reference(kind, space, where) if write is None else write(self, node, kind, space, where)

    def _reference(self, name: str, space: str | None, where: str) -> str:
        if name in PRIMITIVES:
            return name
        full = name if "." in name or not space else f"{space}.{name}"
        if full not in self.names:
            full = name  # a name without a dot may be in the null namespace
        if full not in self.names:
            raise SchemaSyntaxError(where, f"the type {name!r} is not defined")
        return _relative(full, space)

    def _union(self, node: list[Any], space: str | None, where: str) -> list[Any]:
        branches = [self.write(branch, space, f"{where}[{at}]") for at, branch in enumerate(node)]
        seen = set()
        for at, branch in enumerate(branches):
            kind = branch_name(branch, space)
            if kind == "union":
                raise SchemaSyntaxError(f"{where}[{at}]", "a union cannot be inside a union")
            if kind in seen:
                raise SchemaSyntaxError(f"{where}[{at}]", f"duplicate type {kind!r} in the union")
            seen.add(kind)
        return branches

    def _record(self, node: dict[str, Any], kind: str, space: str | None, where: str) -> Any:
        head, inner = self._head(node, kind, space, where)
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise SchemaSyntaxError(where, f'a {kind} needs a list "fields"')
        written = [self._field(field, inner, f"{where}.fields[{at}]") for at, field in enumerate(fields)]
        twice = _first_twice([field["name"] for field in written])
        if twice is not None:
            raise SchemaSyntaxError(f"{where}.fields", f"duplicate field {twice!r}")
        return head | {"fields": written} | _other_attributes(node, kind, where)

    def _field(self, field: Any, space: str | None, where: str) -> Any:
        if not isinstance(field, dict) or "name" not in field or "type" not in field:
            raise SchemaSyntaxError(where, 'a field needs a "name" and a "type"')
        name = self._name(field["name"], where)
        kind = self.write(field["type"], space, f"{where}.type")
        written: dict[str, Any] = {"name": name, "type": kind}
        if field.get("doc") is not None:
            written["doc"] = field["doc"]
        if "default" in field:
            written["default"] = field["default"]
        order = field.get("order", "ascending")
        if order not in _ORDERS:
            raise SchemaSyntaxError(f"{where}.order", f"an order must be one of {', '.join(_ORDERS)}")
        if order != "ascending":
            written["order"] = order
        if field.get("aliases"):
            written["aliases"] = _texts(field["aliases"], f"{where}.aliases")
        return written | {key: value for key, value in field.items() if key not in _OF_A_FIELD}

    def _enum(self, node: dict[str, Any], kind: str, space: str | None, where: str) -> Any:
        head, _ = self._head(node, kind, space, where)
        symbols = node.get("symbols")
        if not isinstance(symbols, list):
            text = (
                f"Enum symbols must be a sequence of strings, but it is {type(symbols)}"  # Karapace's words
            )
            raise SchemaSyntaxError("" if where == "$" else f"{where}.symbols", text)
        _texts(symbols, f"{where}.symbols")
        for symbol in symbols:
            if not _NAME.fullmatch(symbol):
                raise SchemaSyntaxError(f"{where}.symbols", f"{symbol} {_NO_NAME}")
        if (twice := _first_twice(symbols)) is not None:
            raise SchemaSyntaxError(f"{where}.symbols", f"duplicate symbol {twice!r}")
        head["symbols"] = symbols
        if "default" in node:
            if node["default"] not in symbols:
                raise SchemaSyntaxError(f"{where}.default", "the default is not one of the symbols")
            head["default"] = node["default"]
        return head | _other_attributes(node, kind, where)

    def _fixed(self, node: dict[str, Any], kind: str, space: str | None, where: str) -> Any:
        head, _ = self._head(node, kind, space, where)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise SchemaSyntaxError(f"{where}.size", "a fixed needs a size of 0 or more")
        return head | {"size": size} | _other_attributes(node, kind, where)

    def _array(self, node: dict[str, Any], kind: str, space: str | None, where: str) -> Any:
        inner = "items" if kind == "array" else "values"
        if inner not in node:
            raise SchemaSyntaxError(where, f'"{kind}" needs "{inner}"')
        written = self.write(node[inner], space, f"{where}.{inner}")
        return {"type": kind, inner: written} | _other_attributes(node, kind, where)

    def _head(
        self, node: dict[str, Any], kind: str, space: str | None, where: str
    ) -> tuple[dict[str, Any], str | None]:
        """Type, name, namespace and doc, and the namespace of nested names."""
        name = node.get("name")
        if not isinstance(name, str):
            raise SchemaSyntaxError(where, f'a {kind} needs a "name"')
        listed = node.get("namespace")
        own, _, short = name.rpartition(".")
        if own:
            inner: str | None = own
        else:
            inner = (listed or None) if isinstance(listed, str) else space
        if len(inner or "") + len(short) > MAX_NAME:
            raise SchemaSyntaxError(where, f"a full name has at most {MAX_NAME} characters")
        for part in [*(inner or "_").split("."), short]:
            self._name(part, "" if where == "$" else f"{where}.name")  # at the top, the name suffices
        full = f"{inner}.{short}" if inner else short
        if full in self.names or short in PRIMITIVES:
            raise SchemaSyntaxError(f"{where}.name", f"the name {full!r} is already defined")
        self.names[full] = node
        self._characters += len(full)
        if self._characters > limits.max_name_bytes:
            raise SchemaSyntaxError(where, "its full names are too long in total (--limit max-name-bytes)")
        head: dict[str, Any] = {"type": kind, "name": short}
        if inner != space:
            head["namespace"] = inner or ""
        if node.get("doc") is not None:
            head["doc"] = node["doc"]
        return head, inner

    def _name(self, name: Any, where: str) -> str:
        if not isinstance(name, str) or not name:
            shown = name if isinstance(name, str) else compact(name)[:100]
            raise SchemaSyntaxError(where, f"{shown} {_NO_NAME}")
        if not self.fault and not _NAME.fullmatch(name):
            self.fault = str(SchemaSyntaxError(where, f"{name[:100]} {_NO_NAME}"))
        return name


_WRITERS: dict[str, Callable[[_Writer, dict[str, Any], str, str | None, str], Any]] = {
    "record": _Writer._record,
    "error": _Writer._record,
    "enum": _Writer._enum,
    "fixed": _Writer._fixed,
    "array": _Writer._array,
    "map": _Writer._array,
}


def branch_name(branch: Any, space: str | None) -> str:
    """Name that must be unique among the branches of a union."""
    if isinstance(branch, list):
        return "union"
    if isinstance(branch, str):
        return branch
    if "name" not in branch:
        return str(branch["type"])
    inner = branch.get("namespace", space)
    return _relative(f"{inner}.{branch['name']}" if inner else branch["name"], space)


def _relative(full: str, space: str | None) -> str:
    own, _, short = full.rpartition(".")
    return short if own and own == space else full


def _other_attributes(node: dict[str, Any], kind: str, where: str) -> dict[str, Any]:
    """Custom properties, then aliases: the order of the Java library."""
    own = _DEFINED | {"default"} if kind == "enum" else _DEFINED
    rest = {key: value for key, value in node.items() if key not in own}
    if node.get("aliases") and "name" in node:
        rest["aliases"] = _texts(node["aliases"], f"{where}.aliases")
    return rest


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise SchemaSyntaxError(where, "expected a list of names")
    return value


def _first_twice(names: list[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def full_name(document: dict[str, Any]) -> str:
    space = document.get("namespace")
    return f"{space}.{document['name']}" if space else str(document["name"])


def _resolved(node: Any, space: str | None, named: dict[str, Any]) -> Any:
    """Inline references; `named` contains the types that have not been written yet."""
    if isinstance(node, list):
        return [_resolved(one, space, named) for one in node]
    if isinstance(node, str):
        full = f"{space}.{node}" if space and "." not in node and f"{space}.{node}" in named else node
        found = named.pop(full, None)
        if found is None:
            return node
        head = {"type": found["type"], "name": found["name"], "namespace": found.get("namespace", "")}
        return _resolved(head | found, space, named)
    inner = node.get("namespace", space) or None
    written = dict(node)
    if "fields" in node:
        written["fields"] = [
            field | {"type": _resolved(field["type"], inner, named)} for field in node["fields"]
        ]
    for name in ("items", "values"):
        if name in node:
            written[name] = _resolved(node[name], inner, named)
    return written


def _sorted(node: Any) -> Any:
    if isinstance(node, list):
        return [_sorted(one) for one in node]
    if not isinstance(node, dict):
        return node
    known = [key for key in node if key in _DEFINED or key in _OF_A_FIELD]
    others = sorted(key for key in node if key not in known)
    inner = ("type", "items", "values", "fields")
    return {key: _sorted(node[key]) if key in inner else node[key] for key in [*known, *others]}
