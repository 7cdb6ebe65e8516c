import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import encode_varint

from barnabas.records.varints import read_varint, varint


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_every_64_bit_number_comes_back(number: int) -> None:
    assert read_varint(b"xx" + varint(number) + b"rest", 2) == (number, 2 + len(varint(number)))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_are_written_as_kafka_python_writes_them(number: int) -> None:
    expected = bytearray()
    encode_varint(number, expected.append)
    assert varint(number) == expected


def test_a_number_that_never_ends_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        read_varint(b"\xff" * 11, 0)


def test_a_number_cut_short_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        read_varint(b"\xff\xff", 0)
