"""`barnabas console` as a command: files, secrets and rejected listen addresses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.services.console.access.passwords import PasswordHash, digest_of

COMMAND = [sys.executable, "-m", "barnabas"]


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_password_becomes_a_hash_and_a_token_a_digest() -> None:
    password = json.loads(run("console", "password", "-o", "json", stdin="her secret\n").stdout)["password"]
    token = json.loads(run("console", "token", "-o", "json").stdout)

    assert PasswordHash.parse(password).matches("her secret")
    assert digest_of(token["token"]) == token["digest"]


def test_an_empty_password_is_refused() -> None:
    done = run("console", "password", stdin="\n")

    assert done.returncode == 2
    assert "empty" in done.stderr


@pytest.mark.parametrize(
    "arguments", [("console", "--listen", "0.0.0.0:0"), ("serve", "--data", "DIR", "--console", "0.0.0.0:0")]
)
def test_without_login_nothing_is_served_to_other_machines(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = run(*(str(tmp_path) if each == "DIR" else each for each in arguments))

    assert done.returncode == 2
    assert "the console has no login" in done.stderr
    assert "listen on 127.0.0.1" in " ".join(done.stderr.split())


def test_file_errors_are_reported_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "console.yml"
    file.write_text("read_only: true\nlogn: {}\n")
    done = run("console", "--config", str(file))

    assert done.returncode == 2
    assert "console.yml, line 2: unknown key `logn`; did you mean `login`?" in done.stderr
