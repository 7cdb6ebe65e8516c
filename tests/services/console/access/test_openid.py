"""Login with a real OpenID provider (npm oidc-provider), by a browser and by an attacker."""

from __future__ import annotations

import html
import http.cookiejar
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.client.addresses import Address
from barnabas.client.security.parsing import parse_security
from barnabas.security.authn.credentials import Secret
from barnabas.services.console.access.model import AccessSettings, Grant, LoginKind, LoginSettings, Oidc, Role
from barnabas.services.console.settings import ClusterSettings
from barnabas.testing import EmbeddedBroker
from tests.services.console.web import CLUSTER, RunningConsole, running_console
from tests.support.identity_providers import openid_provider
from tests.support.programs import free_port
from tests.support.sasl import login, sasl_settings

CALLBACK = "/login/oidc/callback"


class Browser:
    """Follows redirects with its own cookies, and fills in the provider's forms."""

    def __init__(self) -> None:
        jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        self.url = ""

    def get(self, url: str, form: dict[str, str] | None = None) -> tuple[int, str]:
        data = None if form is None else urllib.parse.urlencode(form).encode()
        try:
            with self._opener.open(url, data, timeout=60) as answer:
                self.url = answer.geturl()
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            self.url = error.geturl()
            return error.code, error.read().decode()

    def log_in(self, url: str, name: str) -> tuple[int, str]:
        """Until the provider asks no more questions."""
        status, page = self.get(url)
        while "/interaction/" in self.url:
            action = re.search(r'action="([^"]+)"', page)
            prompt = re.search(r'name="prompt" value="(\w+)"', page)
            assert action is not None, page
            assert prompt is not None, page
            form = {"prompt": prompt[1], "login": name, "password": "any"}
            status, page = self.get(html.unescape(action[1]), form)
        return status, page


class Party(NamedTuple):
    console: RunningConsole
    url: str


def _client(issuer: str, url: str) -> Oidc:
    scopes = ("openid", "profile", "broker")
    return Oidc(issuer, "console", url + CALLBACK, Secret("the+console/secret"), scopes)


@pytest.fixture(scope="module")
def party(console_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Party]:
    """A console and its provider, which know each other's address."""
    folder = tmp_path_factory.mktemp("provider")
    url = f"http://127.0.0.1:{(port := free_port())}"
    grants = (Grant(Role.VIEWER, groups=("ops",)), Grant(Role.ADMIN, ("alice",)))
    with openid_provider(folder, url + CALLBACK) as issuer:
        access = AccessSettings(LoginSettings(LoginKind.SERVICE, oidc=_client(issuer, url)), grants)
        settings: dict[str, Any] = {"url": url, "listen": Address("127.0.0.1", port), "access": access}
        with running_console(console_broker.bootstrap_servers, folder / "data", **settings) as console:
            yield Party(console, url)


def test_a_person_logs_in_with_the_provider_and_has_the_roles_of_name_and_groups(party: Party) -> None:
    alice, bob = Browser(), Browser()
    wanted = f"{party.url}/c/default/access/quotas"

    status, page = alice.log_in(f"{party.url}/login/oidc?next=/c/default/access/quotas", "alice")
    assert (status, alice.url) == (200, wanted)
    assert 'aria-label="alice"' in page
    assert "Set a limit" in page
    status, page = bob.log_in(f"{party.url}/login/oidc?next=/c/default/access/quotas", "bob")
    assert (status, bob.url) == (200, wanted)
    assert "Set a limit" not in page


def test_the_login_page_leads_to_the_provider_and_asks_for_no_password(party: Party) -> None:
    status, page = Browser().get(f"{party.url}/c/default/access/acls")

    assert status == 200
    assert "/login/oidc?next=%2Fc%2Fdefault%2Faccess%2Facls" in page
    assert 'type="password"' not in page


def begun(party: Party) -> dict[str, str]:
    """The authorization request, and the browser's cookie."""
    with party.console.web() as web:
        answer = web.ask("GET", "/login/oidc")
    query = urllib.parse.urlsplit(answer.headers["location"]).query
    parameters = dict(urllib.parse.parse_qsl(query))
    return {**parameters, "cookie": answer.headers["set-cookie"].partition(";")[0]}


def test_provider_is_called_with_pkce_state_and_nonce(party: Party) -> None:
    first, second = begun(party), begun(party)

    assert (first["response_type"], first["code_challenge_method"]) == ("code", "S256")
    assert first["redirect_uri"] == party.url + CALLBACK
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name]) >= 43
        assert first[name] != second[name]


@pytest.mark.parametrize(
    "change", ["no cookie", "another's cookie", "made up state", "no code", "wrong code", "issuer"]
)
def test_response_for_another_browser_is_rejected(party: Party, change: str) -> None:
    own, others = begun(party), begun(party)
    query = {"state": own["state"], "code": "made-up"}
    cookie = own["cookie"]
    if change == "no cookie":
        cookie = ""
    elif change == "another's cookie":
        cookie = others["cookie"]
    elif change == "made up state":
        query["state"] = "x" * 43
    elif change == "no code":
        query = {"state": own["state"], "error": "access_denied"}
    elif change == "issuer":
        query["iss"] = "https://evil.example"
    with party.console.web() as web:
        answer = web.ask("GET", f"{CALLBACK}?{urllib.parse.urlencode(query)}", Cookie=cookie)

        assert answer.status == 401
        assert "You are not logged in: " in answer.text
        assert "barnabas-session" not in str(answer.headers.get_all("set-cookie"))


def test_a_state_is_good_once(party: Party) -> None:
    own = begun(party)
    with party.console.web() as web:
        path = f"{CALLBACK}?state={own['state']}&code=made-up"
        first = web.ask("GET", f"/api/v1{path}", Cookie=own["cookie"]).json["error"]
        second = web.ask("GET", f"/api/v1{path}", Cookie=own["cookie"]).json["error"]

    assert "refuses" in first
    assert "not begun here" in second


def test_with_a_login_as_oneself_the_token_of_the_provider_opens_the_connections(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    with openid_provider(tmp_path, url + CALLBACK) as issuer, _trusting(issuer) as broker:
        own = parse_security(login("PLAIN", "bob", "bobs-password"))
        cluster = ClusterSettings(CLUSTER, broker.bootstrap_servers, own)
        access = AccessSettings(LoginSettings(LoginKind.KAFKA, oidc=_client(issuer, url)))
        settings: dict[str, Any] = {
            "clusters": (cluster,),
            "url": url,
            "access": access,
            "listen": Address("127.0.0.1", port),
        }
        with running_console(broker.bootstrap_servers, tmp_path / "data", **settings):
            alice, carol = Browser(), Browser()
            there = f"{url}/login/oidc?next=/c/default/access/quotas"

            assert alice.log_in(there, "alice")[0] == 200
            status, page = carol.log_in(there, "carol")
            assert status == 403
            assert "carol may not do this: it needs DESCRIBE_CONFIGS" in page


def _trusting(issuer: str) -> EmbeddedBroker:
    """Alice is a super user, and carol may do nothing."""
    settings = {
        "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"{issuer}/jwks",
        "sasl.oauthbearer.expected.issuer": issuer,
        "sasl.oauthbearer.expected.audience": "urn:barnabas",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:bob;User:alice",
    }
    return EmbeddedBroker(sasl_settings(("PLAIN", "OAUTHBEARER"), **settings))


def test_logins_that_others_begin_and_abandon_do_not_end_mine(party: Party) -> None:
    own = begun(party)
    with party.console.web() as web:
        for _ in range(1001):
            assert web.ask("GET", "/login/oidc").status == 303
        query = urllib.parse.urlencode({"state": own["state"], "code": "made-up"})
        answer = web.ask("GET", f"/api/v1{CALLBACK}?{query}", Cookie=own["cookie"])
    assert "refuses" in answer.json["error"]  # the provider was asked


@pytest.mark.parametrize(
    "change", [lambda text: text[:-1], lambda text: "x" + text, lambda text: f"{text}.x"]
)
def test_a_cookie_that_was_changed_begins_no_login(party: Party, change: Callable[[str], str]) -> None:
    own = begun(party)
    name, _, value = own["cookie"].partition("=")
    with party.console.web() as web:
        path = f"/api/v1{CALLBACK}?state={own['state']}&code=made-up"
        answer = web.ask("GET", path, Cookie=f"{name}={change(value)}")
    assert "not begun here" in answer.json["error"]
