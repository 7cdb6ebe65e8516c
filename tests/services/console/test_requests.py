from __future__ import annotations

import msgspec
import pytest

from barnabas.services.console.errors import BadInputError
from barnabas.services.console.requests import as_struct, read_fields, read_struct


class Query(msgspec.Struct):
    topic: str
    partition: int | None = None
    series: list[str] = []
    live: bool = False


def test_the_path_wins_over_a_parameter_of_the_same_name() -> None:
    assert as_struct(Query, {"topic": "mine"}, read_fields(b"topic=other&topic=third")).topic == "mine"


def test_texts_are_converted_to_parameter_types() -> None:
    found = as_struct(Query, {"topic": "a"}, read_fields(b"partition=3&series=x&series=y&live=true&more=1"))

    assert found == Query("a", 3, ["x", "y"], True)


def test_an_empty_field_is_as_if_it_were_not_there() -> None:
    assert as_struct(Query, {"topic": "a"}, read_fields(b"partition=&series=")) == Query("a")


def test_a_value_of_the_wrong_kind_is_refused_with_its_field() -> None:
    with pytest.raises(BadInputError) as refused:
        as_struct(Query, {"topic": "a"}, read_fields(b"partition=three"))
    assert refused.value.field == "partition"


def test_missing_parts_are_named() -> None:
    with pytest.raises(BadInputError, match="topic is missing"):
        as_struct(Query, {}, {})


@pytest.mark.parametrize("body", [b"[1]", b"{", b'"x"', b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadInputError):
        read_struct(Query, {"topic": "a"}, "application/json", body)
