import pytest

from barnabas.config.checks import AtLeast, Between, BetweenOr, ListOf, Matching, OneOf, ReplicaList
from barnabas.config.setting import Check, ConfigError, Kind, Setting, Value, format_value


def setting(kind: Kind, check: Check | None = None) -> Setting:
    return Setting("some.name", kind, None, "", check)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.BOOLEAN, "true", True),
        (Kind.BOOLEAN, " FALSE ", False),
        (Kind.INT, "2147483647", 2147483647),
        (Kind.INT, "-2147483648", -2147483648),
        (Kind.INT, " +5 ", 5),
        (Kind.SHORT, "32767", 32767),
        (Kind.LONG, "9223372036854775807", 9223372036854775807),
        (Kind.DOUBLE, "0.5", 0.5),
        (Kind.DOUBLE, "1", 1.0),
        (Kind.DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308),
        (Kind.STRING, " a b ", "a b"),
        (Kind.LIST, "", ()),
        (Kind.LIST, "a , b,c", ("a", "b", "c")),
        (Kind.LIST, "a,b,a", ("a", "b")),
        (Kind.PASSWORD, "secret", "secret"),
    ],
)
def test_texts_are_read_as_kafka_reads_them(kind: Kind, text: str, value: Value) -> None:
    parsed = setting(kind).parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.BOOLEAN, "yes"),
        (Kind.BOOLEAN, "1"),
        (Kind.BOOLEAN, ""),
        (Kind.INT, "2147483648"),
        (Kind.INT, "1_000"),
        (Kind.INT, "1.0"),
        (Kind.INT, "1k"),
        (Kind.INT, ""),
        (Kind.INT, "٣"),
        (Kind.SHORT, "32768"),
        (Kind.LONG, "9223372036854775808"),
        (Kind.LONG, "0x10"),
        (Kind.DOUBLE, "half"),
        (Kind.DOUBLE, "nan"),
    ],
)
def test_other_texts_are_refused_with_the_name_and_the_value(kind: Kind, text: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {text} for configuration some.name: "):
        setting(kind).parse(text)


@pytest.mark.parametrize(
    ("kind", "check", "good", "bad", "complaint"),
    [
        (Kind.INT, AtLeast(1), "1", "0", "Value must be at least 1"),
        (Kind.DOUBLE, Between(0, 1), "1", "1.5", "Value must be no more than 1"),
        (Kind.INT, Between(1, 17), "17", "0", "Value must be at least 1"),
        (Kind.INT, BetweenOr(1, 9, -1), "-1", "0", "Value must be at least 1"),
        (Kind.STRING, OneOf("a", "b"), "b", "B", "String must be one of: a, b"),
        (Kind.STRING, OneOf("a", ignore_case=True), "A", "b", "String must be one of: a"),
        (Kind.LIST, ListOf("a", "b"), "b,a", "a,c", "String must be one of: a, b"),
        (Kind.LIST, ListOf("a", "b"), "", "c", "String must be one of: a, b"),
        (Kind.STRING, Matching("[0-9]+", "digits"), "", "x", "Expected digits"),
        (Kind.LIST, ReplicaList(), "*", "0", "Must be"),
        (Kind.LIST, ReplicaList(), "0:1,2:3", "*,0:1", "Must be"),
        (Kind.LIST, ReplicaList(), "", "a:b", "Must be"),
    ],
)
def test_a_check_says_what_is_allowed(kind: Kind, check: Check, good: str, bad: str, complaint: str) -> None:
    setting(kind, check).parse(good)
    with pytest.raises(ConfigError) as refusal:
        setting(kind, check).parse(bad)
    assert complaint in str(refusal.value)
    assert check.allowed


def test_a_refused_secret_is_not_repeated() -> None:
    refusal = setting(Kind.PASSWORD).wrong("swordfish", "too short")
    assert str(refusal) == "Invalid value [hidden] for configuration some.name: too short"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, None), (True, "true"), (5, "5"), (0.5, "0.5"), (("a", "b"), "a,b"), ((), ""), ("x", "x")],
)
def test_values_are_written_as_kafka_writes_them(value: Value, text: str | None) -> None:
    assert format_value(value) == text
