"""JSON Schema, drafts 4 to 2020-12: checked, with every `$ref` led to its target. Nothing is fetched from anywhere."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.services.registry.formats.parsing import SchemaSyntaxError, compact, read_json

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

Node = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class JsonSchema:
    text: str
    root: Any
    others: tuple[Any, ...] = ()  # documents of its references: the ids below are of objects in them, too
    targets: dict[int, Any] = field(default_factory=dict)  # id of an object with a `$ref` -> where it leads
    _beside: dict[int, Node] = field(
        default_factory=dict
    )  # the same -> target and what stands beside the $ref

    @property
    def identity(self) -> str:
        """The order of keys does not matter."""
        return self.normalized()

    @property
    def fault(self) -> str:
        return ""

    def normalized(self) -> str:
        return compact(self.root, sort_keys=True)

    def rendered(self, wanted: str) -> str:
        return self.text

    def resolved(self, node: Any) -> Any:
        """Where the `$ref`s of a node end; {} for one that only leads around in a circle."""
        seen: set[int] = set()
        while isinstance(node, dict) and "$ref" in node and id(node) in self.targets:
            if id(node) in seen:
                return {}
            seen.add(id(node))
            rest = {key: value for key, value in node.items() if key not in _NOT_BESIDE_REF}
            if rest:  # since 2019-09, what stands beside a $ref counts too
                return self._beside.setdefault(id(node), {"allOf": [self.targets[id(node)], rest]})
            node = self.targets[id(node)]
        return node


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
    """SchemaSyntaxError says what is wrong and where."""
    root = read_json(text)
    documents = {name: read_json(other) for name, other in dependencies.items()}
    index = _Index()
    index.add(root, "")
    for name, document in documents.items():
        index.add(document, name)
    for name, document in {"": root, **documents}.items():
        if not isinstance(document, dict | bool):
            raise SchemaSyntaxError(
                "$", f"a JSON Schema is an object or a boolean, not {compact(document)[:100]}"
            )
        for where, node in _walk(document, "$" if not name else f"{name}#"):
            _check(node, where)
    return JsonSchema(compact(root), root, tuple(documents.values()), index.targets())


class _Index:
    """Schemas by their address: that of a whole document, an `$id` or an `$anchor`."""

    def __init__(self) -> None:
        self._by_address: dict[str, Any] = {}
        self._refs: list[tuple[str, str, Node]] = []  # place, base address, object with a $ref

    def add(self, document: Any, name: str) -> None:
        self._by_address.setdefault(name, document)
        self._add(document, _own_address(document, name), "$" if not name else f"{name}#")

    def _add(self, document: Any, base: str, where: str) -> None:
        waiting = [(where, base, document)]
        while waiting:
            place, base, node = waiting.pop()
            if not isinstance(node, dict):
                continue
            base = _own_address(node, base)
            if base:
                self._by_address.setdefault(base, node)
            for word in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(word), str):
                    self._by_address.setdefault(f"{base}#{node[word]}", node)
            if isinstance(node.get("$ref"), str):
                self._refs.append((place, base, node))
            waiting += [(inner, base, child) for inner, child in _children(node, place)]

    def targets(self) -> dict[int, Any]:
        return {id(node): self._target(place, base, node["$ref"]) for place, base, node in self._refs}

    def _target(self, where: str, base: str, ref: str) -> Any:
        address, _, fragment = ref.partition("#")
        full = urllib.parse.urljoin(base, address) if address else base
        if full.startswith(META_SCHEMAS):
            return {}
        document = self._by_address.get(full, self._by_address.get(address))
        if document is None:
            text = f"the $ref {ref!r} leads nowhere: it is not among the references, and nothing is fetched"
            raise SchemaSyntaxError(where, text)
        fragment = urllib.parse.unquote(fragment)
        if not fragment:
            return document
        if not fragment.startswith("/"):
            found = self._by_address.get(f"{full}#{fragment}")
        else:
            found = _pointed_at(document, fragment)
        if found is None:
            raise SchemaSyntaxError(where, f"the $ref {ref!r} leads to nothing")
        return found


def _own_address(node: Any, base: str) -> str:
    """`id` is what draft 4 called it."""
    if not isinstance(node, dict):
        return base
    own = node.get("$id", node.get("id"))
    if not isinstance(own, str) or own.startswith("#"):
        return base
    return urllib.parse.urljoin(base, own.rstrip("#"))


def _pointed_at(document: Any, pointer: str) -> Any:
    node = document
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(part)
        elif isinstance(node, list) and part.isdecimal() and int(part) < len(node):
            node = node[int(part)]
        else:
            return None
    return node


def _children(node: Node, where: str) -> Iterator[tuple[str, Any]]:
    """The schemas inside a schema, with their places."""
    for word in _SCHEMA:
        if word in node:
            yield f"{where}.{word}", node[word]
    for word in (*_SCHEMAS, "items"):
        found = node.get(word)
        if isinstance(found, list):
            yield from ((f"{where}.{word}[{at}]", child) for at, child in enumerate(found))
        elif word == "items" and found is not None:
            yield f"{where}.items", found
    for word in (*_NAMED, "dependencies"):
        found = node.get(word)
        if isinstance(found, dict):
            listed = word == "dependencies"
            yield from (
                (f"{where}.{word}.{name}", child)
                for name, child in found.items()
                if not (listed and isinstance(child, list))
            )


def _walk(document: Any, where: str) -> Iterator[tuple[str, Any]]:
    waiting = [(where, document)]
    while waiting:
        place, node = waiting.pop()
        yield place, node
        if isinstance(node, dict):
            waiting += list(_children(node, place))


def _check(node: Any, where: str) -> None:
    if isinstance(node, bool):
        return
    if not isinstance(node, dict):
        raise SchemaSyntaxError(where, f"a schema is an object or a boolean, not {compact(node)[:100]}")
    _check_type(node, where)
    _check_lists(node, where)
    for word in ("pattern", "$ref", "$schema", "title", "description", "format"):
        if word in node and not isinstance(node[word], str):
            raise SchemaSyntaxError(f"{where}.{word}", "this must be a text")
    _check_numbers(node, where)


def _check_lists(node: Node, where: str) -> None:
    for word in _NAMED:
        if word in node and not isinstance(node[word], dict):
            raise SchemaSyntaxError(f"{where}.{word}", "this must be an object")
    for word in _SCHEMAS:
        if word in node and (not isinstance(node[word], list) or not node[word]):
            raise SchemaSyntaxError(f"{where}.{word}", "this must be a list of schemas")
    if "required" in node and not isinstance(node["required"], bool) and not _is_names(node["required"]):
        raise SchemaSyntaxError(f"{where}.required", "this must be a list of names")
    if "enum" in node and not isinstance(node["enum"], list):
        raise SchemaSyntaxError(f"{where}.enum", "this must be a list of values")


def _check_type(node: Node, where: str) -> None:
    if "type" not in node:
        return
    given = node["type"] if isinstance(node["type"], list) else [node["type"]]
    for one in given:
        if not isinstance(one, str) or one not in TYPES:
            known = ", ".join(sorted(TYPES))
            raise SchemaSyntaxError(f"{where}.type", f"{compact(one)} is no type: there are {known}")


def _check_numbers(node: Node, where: str) -> None:
    for word in _NUMBERS:
        if word in node and not _is_number(node[word]):
            raise SchemaSyntaxError(f"{where}.{word}", "this must be a number")
    if "multipleOf" in node and node["multipleOf"] <= 0:
        raise SchemaSyntaxError(f"{where}.multipleOf", "this must be above 0")
    for word in ("exclusiveMaximum", "exclusiveMinimum"):
        if word in node and not isinstance(node[word], bool) and not _is_number(node[word]):
            raise SchemaSyntaxError(f"{where}.{word}", "this must be a number (in draft 4: true or false)")
    for word in _COUNTS:
        if word in node and (not _is_number(node[word]) or node[word] < 0 or node[word] != int(node[word])):
            raise SchemaSyntaxError(f"{where}.{word}", "this must be a whole number from 0 on")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
