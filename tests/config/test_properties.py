import pytest

from barnabas.config.properties import parse_properties
from barnabas.config.setting import ConfigError


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a: b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("  a\t=  b c  ", {"a": "b c  "}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("# x=y\n! x=y\n\n   # x\na=b", {"a": "b"}),
        ("a=b # not a comment", {"a": "b # not a comment"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b,\\\n    c,\\\r\n  d", {"a": "b,c,d"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=1,\\\n# part of the value", {"a": "1,# part of the value"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\u00e9\\t\\x", {"a": "é\tx"}),
        ("a=1\rb=2\r\nc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("a=b\\", {"a": "b"}),
        ("", {}),
    ],
)
def test_files_are_parsed_as_in_java(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_a_broken_unicode_escape_is_refused() -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        parse_properties("a=\\u12")
