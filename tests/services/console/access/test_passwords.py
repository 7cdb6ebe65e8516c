from __future__ import annotations

import asyncio

import pytest

from barnabas.services.console.access.passwords import PasswordHash, PasswordHashError, Passwords, hash_of

CHEAP = 14
ALICE = hash_of("her password", CHEAP)


def test_a_hash_is_read_back_and_knows_its_password_and_no_other() -> None:
    read = PasswordHash.parse(str(ALICE))

    assert read == ALICE
    assert read.matches("her password")
    assert not read.matches("her passwore")


def test_two_hashes_of_one_password_are_different() -> None:
    assert str(hash_of("x", CHEAP)) != str(hash_of("x", CHEAP))


@pytest.mark.parametrize(
    "text",
    ["", "secret", "scrypt$15$8$1$AA$BB", "scrypt$30$8$1$x$y", "bcrypt$" + str(ALICE)[7:], str(ALICE)[:-8]],
    ids=["empty", "plain", "short salt", "costly", "other kind", "cut"],  # the same in every process
)
def test_invalid_hash_is_rejected_with_the_command_that_creates_one(text: str) -> None:
    with pytest.raises(PasswordHashError, match="barnabas console password"):
        PasswordHash.parse(text)


def test_a_hash_that_would_take_gigabytes_is_refused() -> None:
    with pytest.raises(PasswordHashError):
        PasswordHash.parse(str(ALICE._replace(log_n=24)))


def test_only_a_known_name_with_its_password_is_accepted() -> None:
    async def accepted() -> list[bool]:
        passwords = Passwords({"alice": ALICE})
        settings = [
            ("alice", "her password"),
            ("alice", "wrong"),
            ("bob", "her password"),
            ("", ""),
            ("alice", ""),
        ]
        return [await passwords.accept(*each) for each in settings]

    assert asyncio.run(accepted()) == [True, False, False, False, False]


def test_unknown_name_is_hashed_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []
    real = PasswordHash.matches

    def matches(self: PasswordHash, word: str) -> bool:
        requested.append(word)
        return real(self, word)

    monkeypatch.setattr(PasswordHash, "matches", matches)
    asyncio.run(Passwords({"alice": ALICE}).accept("nobody", "x"))

    assert requested == ["x"]
