"""Coordinator partition of a key; the expected values are those of `"...".hashCode()` in Java."""

import time

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


def naive_hash(text: str) -> int:
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@pytest.mark.parametrize("length", [255, 256, 257, 511, 512, 513, 5000])
def test_the_hash_of_a_long_text_is_that_of_java_too(length: int) -> None:
    for text in ("a" * length, "\U0001f600" * length, "aé\U0001f600" * length, "\ud83d" * length):
        assert java_hash(text) == naive_hash(text)


def test_the_keys_of_a_group_with_a_very_long_id_are_hashed_in_no_time() -> None:
    began = time.thread_time()
    for partition in range(100):
        partition_for(f"{'c' * 32_767}:AAAAAAAAAAAAAAAAAAAAAA:{partition}", 50)

    assert time.thread_time() - began < 0.05


def test_a_negative_hash_counts_as_its_absolute_value() -> None:
    assert partition_for("billing", 50) == 109829509 % 50


def test_smallest_integer_maps_to_the_first_partition() -> None:
    assert partition_for("polygenelubricants", 50) == 0
