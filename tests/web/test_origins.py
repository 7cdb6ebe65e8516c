from __future__ import annotations

import pytest

from barnabas.web.origins import is_cross_site, is_loopback_host

HOST = {"host": "console.example:8090"}


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({}, False),
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "same-site"}, True),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "cross-site", "origin": "https://console.example:8090"}, True),
        ({"origin": "https://console.example:8090"}, False),
        ({"origin": "https://CONSOLE.example:8090"}, False),
        ({"origin": "https://console.example"}, True),
        ({"origin": "https://evil.example"}, True),
        ({"origin": "null"}, True),
        ({"origin": "https://[broken"}, True),
    ],
)
def test_a_change_comes_from_our_own_pages_or_from_no_browser(headers: dict[str, str], refused: bool) -> None:
    assert is_cross_site("POST", HOST | headers) is refused
    assert not is_cross_site("GET", HOST | headers)


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:8090", True),
        ("127.0.0.1", True),
        ("127.1.2.3:1", True),
        ("localhost:8090", True),
        ("LOCALHOST", True),
        ("[::1]:8090", True),
        ("evil.example:8090", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("10.0.0.1:8090", False),
        ("127.0.0.1:x", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_foreign_name_of_this_machine_is_not_local(host: str, ours: bool) -> None:
    assert is_loopback_host(host) is ours
