from __future__ import annotations

import pytest

from barnabas.services.registry.compatibility.protobuf import problems
from barnabas.services.registry.formats.protobuf import parse_protobuf
from barnabas.services.registry.limits import StepBudget

STEPS = 10_000
BASE = "message A { int32 a = 1; string b = 2; } message B { A inner = 1; }"


def kinds(reader: str, writer: str) -> list[str]:
    head = 'syntax = "proto3";\n'
    found = problems(parse_protobuf(head + reader, {}), parse_protobuf(head + writer, {}), StepBudget(STEPS))
    return [one.partition('errorType:"')[2].partition('"')[0] for one in found]


@pytest.mark.parametrize(
    ("reader", "writer", "wanted"),
    [
        (BASE, BASE, []),
        (BASE.replace("int32 a = 1;", "int32 renamed = 1;"), BASE, []),
        (BASE.replace("int32 a = 1;", ""), BASE, []),
        (BASE.replace("int32 a = 1;", "int32 a = 1; bool c = 3;"), BASE, []),
        (BASE.replace("int32", "int64"), BASE, []),
        (BASE.replace("int32", "bool"), BASE, []),
        (BASE.replace("string", "bytes"), BASE, []),
        (BASE.replace("int32", "sint32"), BASE, ["FIELD_SCALAR_KIND_CHANGED"]),
        (BASE.replace("int32", "string"), BASE, ["FIELD_SCALAR_KIND_CHANGED"]),
        (BASE.replace("A inner", "string inner"), BASE, ["FIELD_KIND_CHANGED"]),
        (BASE.replace("message B { A inner = 1; }", ""), BASE, ["MESSAGE_REMOVED"]),
        (BASE + " message C { int32 x = 1; }", BASE, []),
        (BASE.replace("int32 a", "repeated int32 a"), BASE, ["FIELD_NUMERIC_LABEL_CHANGED"]),
        (BASE.replace("string b", "repeated string b"), BASE, []),
        ("message A { oneof o { int32 a = 1; string b = 2; } }", "message A { int32 a = 1; string b = 2; }",
         ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"]),
        ("message A { oneof o { int32 a = 1; } }", "message A { int32 a = 1; }", []),
        ("message A { oneof o { int32 a = 1; } }", "message A { oneof o { int32 a = 1; int32 b = 2; } }",
         ["ONEOF_FIELD_REMOVED"]),
        ("message A { map<string, int32> m = 1; }", "message A { map<string, int64> m = 1; }", []),
        ("message A { map<string, string> m = 1; }", "message A { map<string, int64> m = 1; }",
         ["FIELD_SCALAR_KIND_CHANGED"]),
        ("enum E { Z = 0; } message A { E e = 1; }", "enum E { Z = 0; Y = 1; } message A { E e = 1; }", []),
    ],
)  # fmt: skip
def test_the_rules(reader: str, writer: str, wanted: list[str]) -> None:
    assert kinds(reader, writer) == wanted


def test_a_message_that_contains_itself_is_compared() -> None:
    tree = "message T { T left = 1; int32 n = 2; }"
    assert kinds(tree, tree) == []
    assert kinds(tree.replace("int32", "double"), tree) == ["FIELD_SCALAR_KIND_CHANGED"]


def test_a_change_in_an_imported_file_is_found() -> None:
    text = 'syntax = "proto3"; import "b.proto"; message A { B b = 1; }'
    new = parse_protobuf(text, {"b.proto": 'syntax = "proto3"; message B { string b = 1; }'})
    old = parse_protobuf(text, {"b.proto": 'syntax = "proto3"; message B { int32 b = 1; }'})
    assert len(problems(new, old, StepBudget(STEPS))) == 1
