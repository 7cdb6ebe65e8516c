from __future__ import annotations

import base64

import pytest

from barnabas.services.registry.formats.parser import SchemaSyntaxError
from barnabas.services.registry.formats.proto_text import proto_text
from barnabas.services.registry.formats.protobuf import parse_protobuf

EVERYTHING = """
syntax = "proto2";
package shop.v1;
import "google/protobuf/timestamp.proto";
import "google/type/money.proto";
option java_package = "org.shop";
message Order {
  option deprecated = true;
  required int64 id = 1;
  optional string note = 2 [default = "a \\"quoted\\" word", deprecated = true];
  repeated Line lines = 3;
  map<string, Line> by_name = 4;
  oneof paid { google.type.Money money = 5; bool free = 6; }
  optional group Extra = 7 { optional bytes raw = 1 [default = "\\001"]; }
  optional Kind kind = 8 [default = LARGE];
  optional google.protobuf.Timestamp at = 9 [json_name = "when"];
  message Line { optional double price = 1; repeated int32 sizes = 2 [packed = true]; }
  enum Kind { option allow_alias = true; SMALL = 0; LARGE = 1; HUGE = 1; reserved 5 to 7; }
  extensions 100 to 199;
  reserved 20, 300 to max;
  reserved "old";
}
extend Order { optional string remark = 101; }
service Orders {
  rpc Get(Order) returns (stream Order);
  rpc Put(stream Order) returns (Order) { option deprecated = true; }
}
"""


def test_the_text_of_a_descriptor_means_the_same() -> None:
    parsed = parse_protobuf(EVERYTHING, {})
    again = parse_protobuf(proto_text(parsed.file), {})
    assert again.identity == parsed.identity
    assert parse_protobuf(parsed.rendered("serialized"), {}).identity == parsed.identity


def test_comments_and_spaces_do_not_make_another_schema() -> None:
    one = parse_protobuf('syntax = "proto3"; message A { int32 a = 1; }', {})
    two = parse_protobuf('// new\nsyntax="proto3";\n\nmessage A {\n int32 a=1;  // old\n}', {})
    assert one.identity == two.identity
    assert two.normalized() == one.normalized()


def test_a_normalized_text_has_the_layout_of_other_registries() -> None:
    text = """syntax = "proto3";
package shop;

import "google/protobuf/any.proto";

option java_multiple_files = true;
option java_package = "org.shop";

message A {
  int32 a = 1;
}
message B {
  .google.protobuf.Any any = 1;
}
"""
    swapped = text.replace("option java_multiple_files = true;\n", "").replace(
        "\nmessage A", "option java_multiple_files = true;\nmessage A"
    )
    assert swapped != text
    assert parse_protobuf(swapped, {}).normalized() == text


def test_error_has_line_and_column() -> None:
    with pytest.raises(SchemaSyntaxError, match="line 2 column 13"):
        parse_protobuf('syntax = "proto3";\nmessage A { foo x = 1; }', {})
    with pytest.raises(SchemaSyntaxError, match="neither"):
        parse_protobuf("bm90IGEgZGVzY3JpcHRvcg", {})


@pytest.mark.parametrize("name", ["/etc/passwd", "../../etc/passwd", "stdio.h", "other.proto"])
def test_files_of_this_machine_cannot_be_imported(name: str) -> None:
    with pytest.raises(SchemaSyntaxError):
        parse_protobuf(f'syntax = "proto3"; import "{name}"; message A {{ }}', {})
    if name.startswith(("/", "..")):
        with pytest.raises(SchemaSyntaxError, match="not a valid import name"):
            parse_protobuf('syntax = "proto3"; message A { }', {name: 'syntax = "proto3";'})


def test_registered_files_are_imported_as_texts_and_as_descriptors() -> None:
    inner = parse_protobuf('syntax = "proto3"; message B { int32 b = 1; }', {})
    text = 'syntax = "proto3"; import "b.proto"; message A { B b = 1; }'
    as_text = parse_protobuf(text, {"b.proto": inner.text})
    as_bytes = parse_protobuf(text, {"b.proto": base64.b64encode(inner.file.SerializeToString()).decode()})
    assert as_text.identity == as_bytes.identity


UNKNOWN_OPTIONS = """
syntax = "proto3";
option (of_file) = { a: 1; b: "x;" };
message M {
  oneof one { option (of_oneof) = true; int32 a = 1; int32 b = 2; }
  int32 c = 3 [(x) = "a]", deprecated = true];
  int32 d = 4 [deprecated = true, (y.z) = 1];
  int32 e = 5 [(x) = 7];
}
"""


def test_options_that_no_file_defines_stay_in_the_text_and_out_of_the_descriptor() -> None:
    schema = parse_protobuf(UNKNOWN_OPTIONS, {})
    assert schema.text == UNKNOWN_OPTIONS.strip() == schema.normalized()
    fields = schema.file.message_type[0].field
    assert [field.options.deprecated for field in fields] == [False, False, True, True, False]
    other = parse_protobuf(UNKNOWN_OPTIONS.replace("(x) = 7", "(x) = 8"), {})
    spaced = parse_protobuf(UNKNOWN_OPTIONS.replace("(x) = 7", "(x)  =  7"), {})
    assert schema.identity == spaced.identity != other.identity
    with pytest.raises(SchemaSyntaxError, match="line 4 column"):
        parse_protobuf(UNKNOWN_OPTIONS.replace("int32 b = 2;", "int33 b = 2;").strip(), {})


def test_import_by_another_name_finds_the_unimported_reference() -> None:
    inner = 'syntax = "proto3"; message Outer { message Inner { int32 a = 1; } }'
    text = 'syntax = "proto3"; import "Inner.proto"; message M { Outer.Inner inner = 1; }'
    schema = parse_protobuf(text, {"Outer.proto": inner})
    assert schema.file.message_type[0].field[0].type_name == ".Outer.Inner"
    assert schema.text == text
    with pytest.raises(SchemaSyntaxError, match=r'Import "Inner\.proto" was not found'):
        parse_protobuf(text, {})


def test_a_text_without_extensions_is_a_format() -> None:
    schema = parse_protobuf(EVERYTHING, {})
    assert "remark" in schema.text
    shown = schema.rendered("ignore_extensions")
    assert "remark" not in shown
    assert "message Line" in shown
    assert schema.rendered("other") == schema.text
