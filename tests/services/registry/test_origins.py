"""Pages of other sites can neither change nor read anything through a browser on the registry's host."""

from __future__ import annotations

import pytest

from barnabas.services.registry.access import Origins
from barnabas.services.registry.errors import RegistryApiError
from tests.support.registry import Rest

EVIL = "http://evil.example"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example:8081"},
    ],
)
def test_a_change_that_a_page_of_another_site_sends_is_refused(rest: Rest, headers: dict[str, str]) -> None:
    assert rest.ask("POST", "/subjects/page/versions", {"schema": '"int"'}, **headers).code == 403
    assert rest.ask("PUT", "/config", {"compatibility": "NONE"}, **headers).code == 403
    assert rest.get("/subjects/page/versions").code == 40401


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": EVIL}])
def test_a_page_of_another_site_reads_nothing(rest: Rest, headers: dict[str, str]) -> None:
    assert rest.get("/subjects", **headers).code == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:18081", "[::1]:8081"])
def test_names_of_loopback_are_served_with_any_port(rest: Rest, host: str) -> None:
    assert rest.get("/subjects", Host=host, Origin=f"http://{host}").status == 200


def test_the_advertised_name_is_served_where_a_proxy_passes_it_on() -> None:
    Origins(frozenset({"registry.example"})).check("POST", {"host": "registry.example:443"})
    Origins(None).check("POST", {"host": "any.example"})
    with pytest.raises(RegistryApiError, match="--advertised"):
        Origins(frozenset()).check("GET", {"host": "registry.example"})
