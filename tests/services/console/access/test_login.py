"""Login with roles: sessions, cookies, tokens, attempts, audit; without login only on loopback."""

from __future__ import annotations

import http.client
import json
import ssl
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from barnabas.security.tls.settings import parse_tls
from barnabas.services.console import server as app
from barnabas.services.console.access.audit import FILE
from barnabas.services.console.access.authenticators import MAX, Attempts, LoginGate, inner_path
from barnabas.services.console.access.model import AccessSettings
from barnabas.services.console.access.passwords import hash_of
from barnabas.testing import EmbeddedBroker
from tests.services.console.access.people import (
    CHEAP,
    PASSWORD,
    by_token,
    cookie_of,
    log_in,
    logged_in,
    with_roles,
)
from tests.services.console.web import RunningConsole, Web, running_console
from tests.support.certificates import Authority


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console")


@pytest.fixture(scope="module")
def console(console_broker: EmbeddedBroker, folder: Path) -> Iterator[RunningConsole]:
    with running_console(console_broker.bootstrap_servers, folder, access=with_roles()) as running:
        yield running


def gate_of(console: RunningConsole) -> LoginGate:
    gate = console.server.gate
    assert isinstance(gate, LoginGate)
    return gate


@pytest.fixture(autouse=True)
def fresh_attempts(console: RunningConsole) -> None:
    gate_of(console).attempts = Attempts()
    gate_of(console).header_attempts = Attempts()


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FILE).read_bytes().splitlines()]


def test_login_sets_a_cookie_that_scripts_and_other_sites_cannot_use(console: RunningConsole) -> None:
    with console.web() as web:
        answer = log_in(web, "viewer", PASSWORD)

    cookie = answer.headers["set-cookie"]
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert cookie.startswith("barnabas-session=")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax")


def test_a_page_sends_people_to_the_login_and_back(console: RunningConsole) -> None:
    with console.web() as web:
        wanted = web.get("/access/acls", q="a&b")
        login = web.ask("GET", wanted.headers["location"])

    assert wanted.status == 303
    assert login.status == 200
    assert 'value="/c/default/access/acls?q=a%26b"' in login.text


def test_the_session_shows_pages_with_the_name_until_the_logout(console: RunningConsole) -> None:
    with logged_in(console, "viewer") as web:
        page = web.get("/access/acls")
        out = web.ask("POST", "/logout", b"", **{"Content-Type": "application/x-www-form-urlencoded"})

        assert page.status == 200
        assert "<p>viewer</p>" in page.text
        assert "Max-Age=0" in out.headers["set-cookie"]
        assert web.get("/access/acls").status == 303
        assert web.api("/access/acls").status == 401


def test_a_session_survives_a_restart_of_the_console_and_not_a_new_password(
    console_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    def restarted(access: AccessSettings) -> AbstractContextManager[RunningConsole]:
        return running_console(console_broker.bootstrap_servers, tmp_path, access=access)

    with restarted(with_roles()) as first, logged_in(first, "viewer") as web:
        cookie = web.headers["Cookie"]
    with restarted(with_roles()) as second, second.web() as web:
        assert web.api("/topics").status == 401
        web.headers["Cookie"] = cookie
        assert web.api("/topics").status == 200
    changed = with_roles()
    changed.login.users["viewer"] = hash_of("another password", CHEAP)
    with restarted(changed) as third, third.web() as web:
        web.headers["Cookie"] = cookie
        assert web.api("/topics").status == 401


def test_a_second_login_makes_a_new_session_and_ends_the_first(console: RunningConsole) -> None:
    with logged_in(console, "viewer") as web:
        first = web.headers["Cookie"]
        second = cookie_of(log_in(web, "admin", PASSWORD))

        assert first != second
        assert web.api("/access/acls").status == 401
        web.headers["Cookie"] = second
        assert web.api("/access/acls").status == 200


def test_a_session_that_the_server_forgot_is_worth_nothing(console: RunningConsole) -> None:
    with logged_in(console, "admin") as web:
        gate_of(console).sessions.close(web.headers["Cookie"].partition("=")[2])

        assert web.api("/access/acls").status == 401


@pytest.mark.parametrize(("name", "password"), [("viewer", "wrong"), ("nobody", PASSWORD), ("viewer", "")])
def test_wrong_password_and_wrong_name_get_the_same_answer(
    console: RunningConsole, name: str, password: str
) -> None:
    with console.web() as web:
        answer = log_in(web, name, password)

    assert answer.status == 401
    assert "The name or the password is wrong" in answer.text
    assert "set-cookie" not in answer.headers


def test_after_many_failures_even_the_right_password_has_to_wait(console: RunningConsole) -> None:
    gate = gate_of(console)
    for _ in range(MAX["both"]):
        gate.attempts.failed("viewer", "127.0.0.1")
    with console.web() as web:
        assert log_in(web, "viewer", PASSWORD).status == 429
        assert log_in(web, "reader", PASSWORD).status == 303


def test_client_with_an_expired_token_blocks_no_other(console: RunningConsole, folder: Path) -> None:
    lines = len(events(folder)) if (folder / FILE).exists() else 0
    with console.web() as web, by_token(console, "viewer") as other:
        web.headers["Authorization"] = "Bearer bct_old"
        answers = {web.api("/access/acls").status for _ in range(MAX["address"] + 5)}
        assert answers == {401}
        assert other.api("/access/acls").status == 200

    assert len(events(folder)) - lines <= MAX["address"]  # the audit log is not flooded


def test_another_site_cannot_log_a_user_in(console: RunningConsole) -> None:
    with console.web() as web:
        answer = log_in(web, "viewer", PASSWORD, **{"Sec-Fetch-Site": "cross-site"})

    assert answer.status == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("path", "see"),
    [
        ("/c/x/topics?q=1", "/c/x/topics?q=1"),
        ("https://evil.example", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("//[", "/"),
        ("https://[", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_login_does_not_redirect_to_another_site(path: str, see: str) -> None:
    assert inner_path(path) == see


def test_a_token_is_for_the_api_and_has_its_role(console: RunningConsole) -> None:
    with by_token(console, "viewer") as viewer, by_token(console, "admin") as admin:
        quota = {"user": "u", "limit": "producer_byte_rate", "value": 1000}

        assert viewer.api("/access/quotas").json["may_change"] is False
        assert viewer.change("/access/quotas", **quota).status == 403
        assert admin.change("/access/quotas", **quota).status == 200
        assert viewer.api("/access/quotas").json["quotas"][0]["user"] == "u"


def test_logins_changes_and_refusals_are_written_down_without_secrets(
    console: RunningConsole, folder: Path
) -> None:
    with logged_in(console, "admin") as web:
        web.post("/access/users", user="carol", password="carols-password")
        web.post("/access/users", user="carol", password="carols-password")
    with by_token(console, "viewer") as web:
        web.change("/access/users", user="mallory", password="mallorys-password")
    with console.web() as web:
        log_in(web, "mallory", "guessed-password")
    text = (folder / FILE).read_text()
    login, begun, done, second, failed, refused, guess = events(folder)[-7:]

    assert (login["event"], login["principal"], login["allowed"]) == ("login", "User:admin", True)
    assert (begun["state"], done["state"], begun["id"]) == ("begun", "done", done["id"])
    assert begun["api"] == "POST /c/{cluster}/access/users"
    assert (begun["operation"], begun["resource_type"], begun["cluster"]) == ("ALTER", "CLUSTER", "default")
    assert begun["names"] == {"user": "carol"}
    assert (second["id"], failed["state"]) == (failed["id"], "failed")
    assert "already" in failed["error"]
    assert (refused["allowed"], refused["principal"]) == (False, "User:viewer")
    assert (guess["principal"], guess["allowed"]) == (None, False)
    for secret in ("carols-password", "mallorys-password", "guessed-password", PASSWORD):
        assert secret not in text
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600


def test_the_page_shows_each_change_once_and_only_to_admins(console: RunningConsole) -> None:
    with by_token(console, "admin") as admin, by_token(console, "operator") as operator:
        admin.change("/access/users", user="dave", password="daves-password")
        shown = admin.ask("GET", "/api/v1/audit?q=dave").json
        denied = admin.ask("GET", "/api/v1/audit?outcome=denied").json
        hidden = operator.ask("GET", "/api/v1/audit").json

    assert [each["outcome"] for each in shown["events"]] == ["allowed"]
    assert shown["events"][0]["note"] == "user dave"
    assert all(each["outcome"] == "denied" for each in denied["events"])
    assert hidden["events"] == []


def test_a_change_that_cannot_be_written_down_is_not_made(
    console_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    (tmp_path / FILE).mkdir()
    with running_console(console_broker.bootstrap_servers, tmp_path) as console, console.web() as web:
        answer = web.change("/access/users", user="erin", password="erins-password")

        assert answer.status == 503
        assert "so nothing is changed" in answer.json["error"]
        assert "erin" not in web.api("/access/users").text


def test_settings_show_no_secret_and_roles_only_to_admins(console: RunningConsole) -> None:
    with by_token(console, "admin") as admin, by_token(console, "operator") as operator:
        complete, part = admin.ask("GET", "/api/v1/settings"), operator.ask("GET", "/api/v1/settings")

    assert complete.json["roles"][0]["role"] == "viewer"
    assert (part.json["roles"], part.json["tokens"], part.json["data"]) == ([], [], "")
    assert "scrypt" not in complete.text
    assert "digest" not in complete.text


@pytest.fixture(scope="module")
def local(
    console_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningConsole]:
    with running_console(console_broker.bootstrap_servers, tmp_path_factory.mktemp("local")) as running:
        yield running


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8090", "127.0.0.1.evil.example", ""])
def test_without_login_a_name_that_points_at_this_machine_is_refused(
    local: RunningConsole, host: str
) -> None:
    with local.web() as web:
        for path in ("/c/default/access/acls", "/api/v1/c/default/access/acls", "/static/x", "/"):
            answer = web.ask("GET", path, Host=host)
            assert answer.status == 403
            assert "for this machine only" in answer.text
        assert web.ask("GET", "/c/default/access/acls", Host="localhost:1").status == 200


def test_without_login_forms_of_other_sites_are_refused(local: RunningConsole) -> None:
    with local.web() as web:
        form = {"user": "frank", "password": "franks-password"}
        web.headers["Origin"] = "https://evil.example"
        assert web.post("/access/users", **form).status == 403
        web.headers["Origin"] = local.url
        assert web.post("/access/users", **form).status == 303


def test_without_login_the_login_leads_to_the_overview(local: RunningConsole) -> None:
    with local.web() as web:
        assert web.ask("GET", "/login").headers["location"] == "/"


def raw_login(web: Web) -> int:
    return web.ask("POST", "/login", b"\xff\xfe", **{"Content-Type": "text/plain"}).status


def test_malformed_login_form_is_rejected_with_a_message(console: RunningConsole) -> None:
    with console.web() as web:
        assert raw_login(web) == 400


def test_on_https_the_cookie_is_bound_to_the_host(console_broker: EmbeddedBroker, tmp_path: Path) -> None:
    authority = Authority()
    own = authority.sign("localhost", "127.0.0.1")
    store = tmp_path / "console.pem"
    store.write_text(own.key_pem() + own.certificate_pem)
    tls = parse_tls({"ssl.keystore.location": str(store)})
    trusting = ssl.create_default_context(cadata=authority.pem)
    servers = console_broker.bootstrap_servers
    with running_console(servers, tmp_path / "data", tls=tls, access=with_roles()) as console:
        host, port = console.url.removeprefix("https://").split(":")
        connection = http.client.HTTPSConnection(host, int(port), timeout=60, context=trusting)
        form = f"name=viewer&password={PASSWORD.replace(' ', '+')}"
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/login", form, kind)
        cookie = connection.getresponse().headers["set-cookie"]
        connection.close()

    assert cookie.startswith("__Host-barnabas-session=")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax; Secure")


def test_a_stream_ends_with_the_session(console: RunningConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "CHECK_STREAMS", 0.05)
    with logged_in(console, "viewer") as web:
        stream = web.events("/live")
        next(stream)
        gate_of(console).sessions.close(web.headers["Cookie"].partition("=")[2])

        for _ in stream:  # in-flight data
            pass
        assert web.api("/topics").status == 401
