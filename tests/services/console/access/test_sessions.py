from __future__ import annotations

import stat
from pathlib import Path

import pytest

from barnabas.services.console.access.authenticators import MAX, Attempts
from barnabas.services.console.access.session_store import SessionStore
from barnabas.services.console.access.sessions import Cookie, Sessions


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def sessions(time: Time, limit: int = 10) -> Sessions[str]:
    return Sessions(idle=60, absolute=600, most=limit, now=time)


def test_a_session_is_found_by_its_id_until_it_is_closed() -> None:
    kept = sessions(Time())
    one, two = kept.open("alice"), kept.open("bob")

    assert (kept.find(one), kept.find(two), kept.find("guess")) == ("alice", "bob", None)
    assert kept.close(one) == "alice"
    assert kept.find(one) is None


def test_unused_session_expires() -> None:
    time = Time()
    kept = sessions(time)
    used, unused = kept.open("alice"), kept.open("bob")
    for _ in range(3):
        time.now += 40
        kept.find(used)

    assert (kept.find(used), kept.find(unused)) == ("alice", None)


def test_session_ends_after_its_maximum_age_despite_use() -> None:
    time = Time()
    kept = sessions(time)
    complete, short = kept.open("alice"), kept.open("bob", within=50)
    for _ in range(14):
        time.now += 40
        kept.find(complete)
        kept.find(short)
    assert kept.find(short) is None
    assert kept.find(complete) == "alice"
    time.now += 40
    assert kept.find(complete) is None


def test_sessions_are_bounded_and_the_least_used_is_evicted_first() -> None:
    kept = sessions(Time(), limit=3)
    first, second, *_ = [kept.open(name) for name in "abc"]
    kept.find(first)
    kept.open("d")

    assert len(kept) == 3
    assert (kept.find(first), kept.find(second)) == ("a", None)


def test_an_id_cannot_be_read_out_of_memory() -> None:
    kept = sessions(Time())
    session = kept.open("alice")

    assert len(session) >= 43
    assert session not in repr(kept)


def test_the_cookie_of_https_is_bound_to_the_host() -> None:
    safe, plain = Cookie("x", is_secure=True), Cookie("x", is_secure=False)

    _, header = safe.setting("id")
    assert header == "__Host-x=id; Path=/; HttpOnly; SameSite=Lax; Secure"
    assert "Secure" not in plain.setting("id")[1]
    assert safe.value({"cookie": "a=b; __Host-x=id"}) == "id"
    assert safe.value({"cookie": "x=forged"}) == ""
    assert plain.value({}) == ""


def test_cookie_is_found_next_to_other_cookies() -> None:
    """Another program on the same host, on any port, sets cookies that browsers send here, too."""
    expected = 'prefs={"a": [1, 2]}; Ünï=x, y; =; broken'
    assert Cookie("x", is_secure=False).value({"cookie": f"{expected}; x=id; last=1"}) == "id"


@pytest.mark.parametrize(
    ("kind", "name", "address"), [("both", "alice", "1"), ("name", "alice", "2"), ("address", "bob", "1")]
)
def test_address_is_ignored_for_a_while_after_too_many_failures(kind: str, name: str, address: str) -> None:
    time = Time()
    attempts = Attempts(now=time)
    for number in range(MAX[kind]):
        assert attempts.wait(name, address) == 0
        failed_name = name if kind != "address" else f"name{number}"
        attempts.failed(failed_name, address if kind != "name" else str(number + 100))

    assert attempts.wait(name, address) == pytest.approx(300)
    assert attempts.wait("carol", "3") == 0
    time.now += 301
    assert attempts.wait(name, address) == 0


def test_successful_login_resets_failed_attempts() -> None:
    attempts = Attempts(now=Time())
    for _ in range(MAX["both"] - 1):
        attempts.failed("alice", "1")
    attempts.succeeded("alice", "1")
    attempts.failed("alice", "1")

    assert attempts.wait("alice", "1") == 0


class PlainCodec:
    def write(self, who: str) -> bytes:
        return who.encode()

    def read(self, data: bytes) -> str | None:
        return None if data == b"nobody" else data.decode()


def stored(folder: Path, time: Time) -> Sessions[str]:
    return Sessions(
        idle=60, absolute=600, most=3, now=time, store=SessionStore(folder / "s.sqlite"), codec=PlainCodec()
    )


def test_sessions_continue_after_a_restart_until_they_end(tmp_path: Path) -> None:
    time = Time()
    first = stored(tmp_path, time)
    used, closed, idle = first.open("alice"), first.open("bob"), first.open("carol")
    first.close(closed)
    time.now += 40
    first.find(used)
    first.end()

    time.now += 30
    second = stored(tmp_path, time)
    assert [second.find(each) for each in (used, closed, idle, "guess")] == ["alice", None, None, None]
    time.now += 600
    assert stored(tmp_path, time).find(used) is None


def test_a_session_of_a_killed_console_continues_and_a_logout_is_not_undone(tmp_path: Path) -> None:
    time = Time()
    killed = stored(tmp_path, time)
    kept, closed = killed.open("alice"), killed.open("bob")
    killed.close(closed)
    after = stored(tmp_path, time)  # the first one has not ended in order
    assert (after.find(kept), after.find(closed)) == ("alice", None)
    assert stored(tmp_path, time).find(killed.open("nobody")) is None


def test_the_file_of_sessions_opens_none_and_is_private(tmp_path: Path) -> None:
    kept = stored(tmp_path, Time())
    session = kept.open("alice-and-her-password")
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert b"alice" not in path.read_bytes()
        assert session.encode() not in path.read_bytes()
    kept.end()


@pytest.mark.parametrize("content", [b"not a database" * 1000, b""])
def test_a_damaged_file_of_sessions_ends_them_and_nothing_else(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.sqlite").write_bytes(content)
    kept = stored(tmp_path, Time())
    session = kept.open("alice")
    kept.end()
    assert stored(tmp_path, Time()).find(session) == "alice"


def test_a_folder_that_cannot_be_written_keeps_sessions_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept = stored(tmp_path / "file", Time())
    assert kept.find(kept.open("alice")) == "alice"
