"""Responses of JSON endpoints: rows and cursors."""

import json

import pytest

from barnabas.connect.sources.http import PageLayout, page_of
from barnabas.spark.errors import PipelineError

BY_NEXT = PageLayout("data.items", "meta.next", None)
BY_FIELD = PageLayout("", None, "id")


def body(answer: object) -> bytes:
    return json.dumps(answer).encode()


def test_rows_and_the_next_cursor_are_found_by_their_paths() -> None:
    page = page_of(body({"data": {"items": [{"id": 1}, {"id": 2}]}, "meta": {"next": "c2"}}), BY_NEXT, "c1")
    assert (page.rows, page.cursor) == ([b'{"id":1}', b'{"id":2}'], "c2")
    assert page_of(body({"data": {"items": []}, "meta": {"next": 7}}), BY_NEXT, None).cursor == "7"


def test_an_answer_without_rows_may_leave_the_cursor_where_it_is() -> None:
    for following in ({}, {"next": None}, {"next": ""}, {"next": "c1"}):
        assert page_of(body({"data": {"items": []}, "meta": following}), BY_NEXT, "c1") == ([], "c1")


def test_the_cursor_may_be_a_field_of_the_last_row_and_its_row_is_not_read_twice() -> None:
    page = page_of(body([{"id": 4}, {"id": 5}, {"id": 6}]), BY_FIELD, "4")
    assert (page.rows, page.cursor) == ([b'{"id":5}', b'{"id":6}'], "6")
    assert page_of(body([{"id": 6}]), BY_FIELD, "6") == ([], "6")
    assert page_of(body([]), BY_FIELD, None) == ([], None)


@pytest.mark.parametrize(
    ("answer", "layout", "sentence"),
    [
        (b"<html>", BY_NEXT, "not valid JSON"),
        (body([1]), BY_NEXT, "No list of rows at `data.items`"),
        (body({"id": 1}), BY_FIELD, "No list of rows in the response"),
        (body({"data": {"items": [{}]}, "meta": {}}), BY_NEXT, "no new cursor at `meta.next`"),
        (body({"data": {"items": [{}]}, "meta": {"next": "c1"}}), BY_NEXT, "reread"),
        (body([{"id": 1}, {"name": "x"}]), BY_FIELD, "A row has no `id`"),
        (body([{"id": 1}, 2]), BY_FIELD, "A row has no `id`"),
    ],
)
def test_unrecoverable_errors_are_reported(answer: bytes, layout: PageLayout, sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence):
        page_of(answer, layout, "c1")
