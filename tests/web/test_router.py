"""Requests find their routes by method and path."""

from __future__ import annotations

import pytest

from barnabas.web.router import Match, MethodNotAllowedError, NotFoundError, Route, Router

ROUTES = [
    Route(method, path, print, right)
    for method, path, right in (
        ("GET", "/", "none"),
        ("GET", "/groups/{group}", "describe"),
        ("GET", "/groups/new", "create"),
        ("DELETE", "/groups/{group}", "delete"),
        ("POST", "/groups/{group}/offsets/{topic}", "read"),
    )
]


def match(method: str, raw_path: str) -> Match[Route[str]]:
    return Router(ROUTES).match(method, raw_path)


def test_a_request_is_matched_by_method_and_path() -> None:
    assert match("GET", "/").route.right == "none"
    assert match("GET", "/groups/a").route.right == "describe"
    assert match("DELETE", "/groups/a").route.right == "delete"


def test_parameters_are_percent_decoded_after_the_path_is_split() -> None:
    found = match("POST", "/groups/a%2Fb%20c/offsets/%C3%A4%2500")
    assert found.parameters == {"group": "a/b c", "topic": "ä%00"}


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    assert match("GET", "/groups/%ff").parameters == {"group": "\N{REPLACEMENT CHARACTER}"}


def test_literal_segments_are_not_percent_decoded() -> None:
    with pytest.raises(NotFoundError):
        match("GET", "/%67roups/a")


def test_a_literal_segment_takes_precedence_over_a_parameter() -> None:
    assert match("GET", "/groups/new").route.right == "create"


def test_a_literal_segment_without_the_method_leaves_the_request_to_the_parameter() -> None:
    found = match("DELETE", "/groups/new")
    assert (found.route.right, found.parameters) == ("delete", {"group": "new"})


def test_head_is_served_by_get() -> None:
    assert match("HEAD", "/groups/a").route.right == "describe"


def test_an_empty_segment_is_an_empty_parameter() -> None:
    assert match("POST", "/groups//offsets/").parameters == {"group": "", "topic": ""}


@pytest.mark.parametrize("path", ["/group", "/groups", "/groups/a/", "//groups/a", "/groups/a/b", "//"])
def test_a_path_without_a_route_is_not_found(path: str) -> None:
    with pytest.raises(NotFoundError):
        match("GET", path)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/", ["GET"]),
        ("PUT", "/groups/a", ["DELETE", "GET"]),
        ("PUT", "/groups/new", ["DELETE", "GET"]),
        ("HEAD", "/groups/a/offsets/b", ["POST"]),
        ("get", "/groups/a", ["DELETE", "GET"]),
    ],
)
def test_another_method_is_not_allowed_and_the_error_lists_those_that_are(
    method: str, path: str, allowed: list[str]
) -> None:
    with pytest.raises(MethodNotAllowedError) as raised:
        match(method, path)
    assert raised.value.allowed == allowed
