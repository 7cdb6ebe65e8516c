"""Small schemas that require excessive work or memory."""

from __future__ import annotations

import json
from typing import Any

Pair = tuple[str, Any, Any]  # language, older version, newer version


def ref_chain(levels: int = 40) -> Pair:
    """3 KB: each level has the one below it twice, and each pair at the bottom is a problem: 2 ** levels of them."""

    def schema(leaf: str) -> Any:
        definitions: dict[str, Any] = {
            f"d{at}": {
                "properties": {"a": {"$ref": f"#/$defs/d{at + 1}"}, "b": {"$ref": f"#/$defs/d{at + 1}"}}
            }
            for at in range(levels)
        }
        definitions[f"d{levels}"] = {"type": leaf}
        return {"$defs": definitions, "$ref": "#/$defs/d0"}

    return "JSON", schema("string"), schema("integer")


def deep_names(depth: int = 50, length: int = 6_000, leaves: int = 4_000) -> Pair:
    """350 KB: full path names repeated for many leaves."""

    def schema(leaf: str) -> Any:
        node: Any = {"properties": {f"p{at}": {"type": leaf} for at in range(leaves)}}
        for at in range(depth // 2):
            node = {"properties": {f"{at}-" + "n" * length: node}}
        return node

    return "JSON", schema("string"), schema("integer")


def alternatives(count: int = 1_500) -> Pair:
    def schema(more: int) -> Any:
        inner = [{"properties": {f"p{at}": {"type": "string", "minLength": more}}} for at in range(count)]
        return {"anyOf": inner}

    return "JSON", schema(1), schema(2)


def patterns(count: int = 1_000) -> Pair:
    """Properties that the other version does not name, each to be tried with all patterns."""
    wide = "(" + "|".join(f"x{at}" for at in range(40)) + "){3}"
    older = {"patternProperties": {f"^{wide}{at}$": {"type": "string"} for at in range(count)}}
    newer = {"properties": {f"name-{at}": {"type": "string"} for at in range(count)}}
    return "JSON", older, newer


def avro_union(count: int = 8_000) -> Pair:
    def schema(kind: str) -> Any:
        return [
            {"type": "record", "name": f"R{at}", "fields": [{"name": "a", "type": kind}]}
            for at in range(count)
        ]

    return "AVRO", schema("int"), schema("string")


def avro_twins(count: int = 4_000) -> Pair:
    """Records of one short name in many namespaces: each could stand for each."""

    def schema(kind: str) -> Any:
        return [
            {"type": "record", "name": "R", "namespace": f"n{at}", "fields": [{"name": "a", "type": kind}]}
            for at in range(count)
        ]

    return "AVRO", schema("int"), schema("string")


def avro_namespaces(count: int = 8_000, length: int = 300_000) -> Pair:
    """A namespace that each record inside repeats in its full name."""

    def schema(kind: str) -> Any:
        fields = [
            {"name": f"f{at}", "type": {"type": "record", "name": f"R{at}", "fields": []}}
            for at in range(count)
        ]
        last = {"name": "last", "type": kind}
        return {"type": "record", "name": "Top", "namespace": "n" * length, "fields": [*fields, last]}

    return "AVRO", schema("int"), schema("string")


def addresses(count: int = 20_000) -> Pair:
    base = "http://example.org/" + "x" * 4_000 + "/"

    def schema(leaf: str) -> Any:
        return {
            "$id": base,
            "allOf": [{"$id": f"i{at}"} for at in range(count)],
            "properties": {"a": {"type": leaf}},
        }

    return "JSON", schema("string"), schema("integer")


def proto_options(count: int = 8_000) -> Pair:
    """Options that no file defines, each with another name."""

    def schema(kind: str) -> str:
        fields = "\n".join(f"{kind} f{at} = {at + 1} [(o{at}) = 1];" for at in range(count))
        return f'syntax = "proto3";\nmessage M {{\n{fields}\n}}\n'

    return "PROTOBUF", schema("int32"), schema("string")


def proto_oneofs(count: int = 8_000) -> Pair:
    def schema(kind: str) -> str:
        fields = "\n".join(f"oneof o{at} {{ {kind} f{at} = {at + 1}; }}" for at in range(count))
        return f'syntax = "proto3";\nmessage M {{\n{fields}\n}}\n'

    return "PROTOBUF", schema("int32"), schema("string")


def proto_names(depth: int = 25, length: int = 5_000, fields: int = 5_000) -> Pair:
    """The full name of a type, with all messages around it, is repeated by each field of that type."""

    def schema(kind: str) -> str:
        names = [f"M{at}{'n' * length}" for at in range(depth)]
        inside = "message L {} " + " ".join(f"L f{at} = {at + 1};" for at in range(fields))
        for name in reversed(names):
            inside = f"message {name} {{ {inside} }}"
        return f'syntax = "proto3";\n{inside}\nmessage Z {{ {kind} a = 1; }}\n'

    return "PROTOBUF", schema("int32"), schema("string")


PAIRS = (
    ref_chain,
    deep_names,
    alternatives,
    patterns,
    avro_union,
    avro_twins,
    avro_namespaces,
    addresses,
    proto_options,
    proto_oneofs,
    proto_names,
)


def text_of(schema: Any) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema, separators=(",", ":"))
