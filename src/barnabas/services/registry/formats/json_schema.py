"""JSON Schema, drafts 4 to 2020-12: validated, with every `$ref` resolved. Nothing is fetched from the network."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.services.registry.formats.parser import Path, SchemaSyntaxError, compact, read_json
from barnabas.services.registry.limits import limits

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
META_SCHEMAS = ("http://json-schema.org/", "https://json-schema.org/")

_SCHEMA = (
    *(
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "not",
        "propertyNames",
    ),
    *("then", "unevaluatedItems", "unevaluatedProperties"),
)
_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas")
_NUMBERS = ("maximum", "minimum", "multipleOf")
_COUNTS = (
    *("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"),
    *("maxContains", "minContains"),
)

MAX_ADDRESS = 4096

Node = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class JsonSchema:
    text: str
    root: Any
    others: tuple[Any, ...] = ()  # referenced documents, kept alive as the ids below may be of their objects
    targets: dict[int, Any] = field(default_factory=dict)  # id of an object with a `$ref` -> target
    _ends: dict[int, Any] = field(default_factory=dict)  # the same -> final target of a chain of `$ref`s

    @property
    def identity(self) -> str:
        """Canonical form that ignores the order of keys."""
        return self.normalized()

    @property
    def fault(self) -> str:
        return ""

    def normalized(self) -> str:
        return compact(self.root, sort_keys=True)

    def rendered(self, format_name: str) -> str:
        return self.text

    def resolved(self, node: Any) -> Any:
        """Final target of the `$ref`s of a node; {} for a circular chain."""
        followed: dict[int, None] = {}
        while isinstance(node, dict) and id(node) in self.targets:
            if id(node) in followed or id(node) in self._ends:
                node = self._ends.get(id(node), {})
                break
            followed[id(node)] = None
            rest = {key: value for key, value in node.items() if key not in _NOT_BESIDE_REF}
            if rest:  # since 2019-09, siblings of a $ref apply too
                node = {"allOf": [self.targets[id(node)], rest]}
                break
            node = self.targets[id(node)]
        return self._keep_end(followed, node)

    def _keep_end(self, followed: Iterable[int], end: Any) -> Any:
        """Keep one object for all threads: comparisons identify nodes by id."""
        for one in followed:
            end = self._ends.setdefault(one, end)
        return end


_NOT_BESIDE_REF = frozenset(
    {
        "$ref",
        "$schema",
        "$id",
        "id",
        "$defs",
        "definitions",
        "title",
        "description",
        "$comment",
        "examples",
        "default",
    }
)


def parse_json_schema(text: str, dependencies: Mapping[str, str]) -> JsonSchema:
    """Parse a schema; SchemaSyntaxError gives reason and position."""
    root = read_json(text)
    documents = {name: read_json(other) for name, other in dependencies.items()}
    index = _Index()
    index.add(root, "")
    for name, document in documents.items():
        index.add(document, name)
    for name, document in {"": root, **documents}.items():
        if not isinstance(document, dict | bool):
            raise SchemaSyntaxError(
                "$", f"a JSON Schema must be an object or a boolean, not {_shown(document)}"
            )
        for where, node in _walk(document, _root(name)):
            _check(node, where)
    return JsonSchema(compact(root), root, tuple(documents.values()), index.targets())


def _root(name: str) -> Path:
    return Path(f"{name}#" if name else "$")


class _Index:
    """Schemas by address: of a document, an `$id` or an `$anchor`."""

    def __init__(self) -> None:
        self._by_address: dict[tuple[str, str], Any] = {}  # by address and anchor
        self._refs: list[tuple[Path, str, Node]] = []  # position, base address, object with a $ref
        self._characters = 0  # total length of addresses

    def add(self, document: Any, name: str) -> None:
        self._by_address.setdefault((name, ""), document)
        waiting = [(_root(name), name, document)]
        while waiting:
            path, base, node = waiting.pop()
            if not isinstance(node, dict):
                continue
            base = self._own_address(node, base, path)
            if base:
                self._by_address.setdefault((base, ""), node)
            for word in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(word), str):
                    self._by_address.setdefault((base, node[word]), node)
            if isinstance(node.get("$ref"), str):
                self._refs.append((path, base, node))
            waiting += [(inner, base, child) for inner, child in _children(node, path)]

    def _own_address(self, node: Node, base: str, where: Path) -> str:
        """Address given by `$id`, or by `id` in draft 4."""
        own = node.get("$id", node.get("id"))
        if not isinstance(own, str) or own.startswith("#"):
            return base
        found = _joined(base, own.rstrip("#"), where)
        self._characters += len(found)
        if self._characters > limits.max_name_bytes:
            raise SchemaSyntaxError(where, "its addresses are too long in total (--limit max-name-bytes)")
        return found

    def targets(self) -> dict[int, Any]:
        return {id(node): self._target(path, base, node["$ref"]) for path, base, node in self._refs}

    def _target(self, where: Path, base: str, ref: str) -> Any:
        address, _, fragment = ref.partition("#")
        full = _joined(base, address, where) if address else base
        if full.startswith(META_SCHEMAS):
            return {}
        document = self._by_address.get((full, ""), self._by_address.get((address, "")))
        if document is None:
            text = f"unresolved $ref {ref!r}: it is not among the references, and schemas are not fetched"
            raise SchemaSyntaxError(where, text)
        fragment = urllib.parse.unquote(fragment)
        if not fragment:
            return document
        if not fragment.startswith("/"):
            found = self._by_address.get((full, fragment))
        else:
            found = _pointed_at(document, fragment)
        if found is None:
            raise SchemaSyntaxError(where, f"unresolved $ref {ref!r}")
        return found


def _joined(base: str, address: str, where: Path) -> str:
    if len(address) > MAX_ADDRESS or len(base) > MAX_ADDRESS:
        raise SchemaSyntaxError(where, f"an address has at most {MAX_ADDRESS} characters")
    try:
        return urllib.parse.urljoin(base, address)
    except ValueError as error:
        raise SchemaSyntaxError(where, f"not a valid address: {address!r} ({error})") from None


def _pointed_at(document: Any, pointer: str) -> Any:
    node = document
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(part)
        elif isinstance(node, list) and part.isascii() and part.isdecimal() and len(part) < 10:
            node = node[int(part)] if int(part) < len(node) else None
        else:
            return None
    return node


def _children(node: Node, where: Path) -> Iterator[tuple[Path, Any]]:
    """Sub-schemas of a schema with their positions."""
    for word in _SCHEMA:
        if word in node:
            yield where / f".{word}", node[word]
    for word in (*_SCHEMAS, "items"):
        found = node.get(word)
        if isinstance(found, list):
            yield from ((where / f".{word}[{at}]", child) for at, child in enumerate(found))
        elif word == "items" and found is not None:
            yield where / ".items", found
    for word in (*_NAMED, "dependencies"):
        found = node.get(word)
        if isinstance(found, dict):
            around, listed = where / f".{word}.", word == "dependencies"
            yield from (
                (around / name, child)
                for name, child in found.items()
                if not (listed and isinstance(child, list))
            )


def _walk(document: Any, where: Path) -> Iterator[tuple[Path, Any]]:
    waiting = [(where, document)]
    while waiting:
        path, node = waiting.pop()
        yield path, node
        if isinstance(node, dict):
            waiting += list(_children(node, path))


def _check(node: Any, where: Path) -> None:
    if isinstance(node, bool):
        return
    if not isinstance(node, dict):
        raise SchemaSyntaxError(where, f"a schema must be an object or a boolean, not {_shown(node)}")
    _check_type(node, where)
    _check_lists(node, where)
    for word in ("pattern", "$ref", "$schema", "title", "description", "format"):
        if word in node and not isinstance(node[word], str):
            raise SchemaSyntaxError(where / f".{word}", "expected a string")
    _check_numbers(node, where)


def _check_lists(node: Node, where: Path) -> None:
    for word in _NAMED:
        if word in node and not isinstance(node[word], dict):
            raise SchemaSyntaxError(where / f".{word}", "expected an object")
    for word in _SCHEMAS:
        if word in node and (not isinstance(node[word], list) or not node[word]):
            raise SchemaSyntaxError(where / f".{word}", "expected a list of schemas")
    if "required" in node and not isinstance(node["required"], bool) and not _is_names(node["required"]):
        raise SchemaSyntaxError(where / ".required", "expected a list of names")
    if "enum" in node and not isinstance(node["enum"], list):
        raise SchemaSyntaxError(where / ".enum", "expected a list of values")


def _check_type(node: Node, where: Path) -> None:
    if "type" not in node:
        return
    listed = node["type"] if isinstance(node["type"], list) else [node["type"]]
    for one in listed:
        if not isinstance(one, str) or one not in TYPES:
            known = ", ".join(sorted(TYPES))
            raise SchemaSyntaxError(where / ".type", f"unknown type {_shown(one)}: types are {known}")


def _check_numbers(node: Node, where: Path) -> None:
    for word in _NUMBERS:
        if word in node and not _is_number(node[word]):
            raise SchemaSyntaxError(where / f".{word}", "expected a number")
    if "multipleOf" in node and node["multipleOf"] <= 0:
        raise SchemaSyntaxError(where / ".multipleOf", "expected a number greater than 0")
    for word in ("exclusiveMaximum", "exclusiveMinimum"):
        if word in node and not isinstance(node[word], bool) and not _is_number(node[word]):
            raise SchemaSyntaxError(where / f".{word}", "expected a number (in draft 4: true or false)")
    for word in _COUNTS:
        if word in node and (not _is_number(node[word]) or node[word] < 0 or node[word] != int(node[word])):
            raise SchemaSyntaxError(where / f".{word}", "expected an integer of 0 or more")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _shown(value: Any) -> str:
    """Truncated text of a value, which may be as large as the schema."""
    return type(value).__name__ if isinstance(value, dict | list) else compact(value)[:100]
