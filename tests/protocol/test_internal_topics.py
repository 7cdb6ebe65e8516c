"""Which partition coordinates a key; the expected values are those of `"...".hashCode()` in Java."""

import pytest

from barnabas.protocol.internal_topics import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-12345", 158455506),
        ("polygenelubricants", -(1 << 31)),
        ("grüße", 98768023),
        ("\U0001f600", 1772899),
    ],
)
def test_the_hash_is_that_of_java(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_a_negative_hash_counts_as_its_absolute_value() -> None:
    assert partition_for("billing", 50) == 109829509 % 50


def test_the_smallest_integer_goes_to_the_first_partition() -> None:
    assert partition_for("polygenelubricants", 50) == 0
