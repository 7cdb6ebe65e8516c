import pytest

from barnabas.config.checks import AtLeast, Between, BetweenOr, ListCheck, Matching, OneOf, ReplicaList
from barnabas.config.setting import ConfigError, Setting, SettingCheck, SettingKind, Value, format_value


def setting(kind: SettingKind, check: SettingCheck | None = None) -> Setting:
    return Setting("some.name", kind, None, "", check)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SettingKind.BOOLEAN, "true", True),
        (SettingKind.BOOLEAN, " FALSE ", False),
        (SettingKind.INT, "2147483647", 2147483647),
        (SettingKind.INT, "-2147483648", -2147483648),
        (SettingKind.INT, " +5 ", 5),
        (SettingKind.SHORT, "32767", 32767),
        (SettingKind.LONG, "9223372036854775807", 9223372036854775807),
        (SettingKind.DOUBLE, "0.5", 0.5),
        (SettingKind.DOUBLE, "1", 1.0),
        (SettingKind.DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308),
        (SettingKind.STRING, " a b ", "a b"),
        (SettingKind.LIST, "", ()),
        (SettingKind.LIST, "a , b,c", ("a", "b", "c")),
        (SettingKind.LIST, "a,b,a", ("a", "b")),
        (SettingKind.PASSWORD, "secret", "secret"),
    ],
)
def test_texts_are_read_as_kafka_reads_them(kind: SettingKind, text: str, value: Value) -> None:
    parsed = setting(kind).parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SettingKind.BOOLEAN, "yes"),
        (SettingKind.BOOLEAN, "1"),
        (SettingKind.BOOLEAN, ""),
        (SettingKind.INT, "2147483648"),
        (SettingKind.INT, "1_000"),
        (SettingKind.INT, "1.0"),
        (SettingKind.INT, "1k"),
        (SettingKind.INT, ""),
        (SettingKind.INT, "٣"),
        (SettingKind.SHORT, "32768"),
        (SettingKind.LONG, "9223372036854775808"),
        (SettingKind.LONG, "0x10"),
        (SettingKind.DOUBLE, "half"),
        (SettingKind.DOUBLE, "nan"),
    ],
)
def test_other_texts_are_refused_with_the_name_and_the_value(kind: SettingKind, text: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {text} for configuration some.name: "):
        setting(kind).parse(text)


@pytest.mark.parametrize(
    ("kind", "check", "good", "bad", "problem"),
    [
        (SettingKind.INT, AtLeast(1), "1", "0", "Value must be at least 1"),
        (SettingKind.DOUBLE, Between(0, 1), "1", "1.5", "Value must be no more than 1"),
        (SettingKind.INT, Between(1, 17), "17", "0", "Value must be at least 1"),
        (SettingKind.INT, BetweenOr(1, 9, -1), "-1", "0", "Value must be at least 1"),
        (SettingKind.STRING, OneOf("a", "b"), "b", "B", "String must be one of: a, b"),
        (SettingKind.STRING, OneOf("a", ignore_case=True), "A", "b", "String must be one of: a"),
        (SettingKind.LIST, ListCheck("a", "b"), "b,a", "a,c", "String must be one of: a, b"),
        (SettingKind.LIST, ListCheck("a", "b"), "", "c", "String must be one of: a, b"),
        (SettingKind.STRING, Matching("[0-9]+", "digits"), "", "x", "Expected digits"),
        (SettingKind.LIST, ReplicaList(), "*", "0", "Must be"),
        (SettingKind.LIST, ReplicaList(), "0:1,2:3", "*,0:1", "Must be"),
        (SettingKind.LIST, ReplicaList(), "", "a:b", "Must be"),
    ],
)
def test_check_returns_the_allowed_operations(
    kind: SettingKind, check: SettingCheck, good: str, bad: str, problem: str
) -> None:
    setting(kind, check).parse(good)
    with pytest.raises(ConfigError) as refusal:
        setting(kind, check).parse(bad)
    assert problem in str(refusal.value)
    assert check.allowed


def test_a_refused_secret_is_not_repeated() -> None:
    refusal = setting(SettingKind.PASSWORD).wrong("swordfish", "too short")
    assert str(refusal) == "Invalid value [hidden] for configuration some.name: too short"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, None), (True, "true"), (5, "5"), (0.5, "0.5"), (("a", "b"), "a,b"), ((), ""), ("x", "x")],
)
def test_values_are_written_as_kafka_writes_them(value: Value, text: str | None) -> None:
    assert format_value(value) == text
