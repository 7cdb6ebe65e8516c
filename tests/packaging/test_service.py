"""The systemd unit and `sd_notify`; manual pages and completion, which are generated from the commands."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.testing import EmbeddedBroker
from tests.packaging.installed import run, serving
from tests.support.programs import PROJECT_ROOT, find
from tools.doc_commands import commands
from tools.packages.manual_pages import COMPLETIONS, completion_scripts, manual_pages

UNIT = PROJECT_ROOT / "packaging/systemd/barnabas.service"
MAX_EXPOSURE = 2.0
BARNABAS = Path(sys.executable).parent / "barnabas"


def exposure(unit: Path) -> float:
    (analyze,) = find("systemd-analyze")
    report = subprocess.run(
        [analyze, "security", "--offline=yes", "--no-pager", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", report.stdout)
    assert found, report.stdout + report.stderr
    return float(found[1])


def test_the_unit_exposes_little(tmp_path: Path) -> None:
    assert exposure(UNIT) <= MAX_EXPOSURE
    open_unit = tmp_path / "open.service"
    open_unit.write_text(UNIT.read_text().partition("# Data outside")[0])
    assert exposure(open_unit) > MAX_EXPOSURE


def test_the_unit_has_no_unknown_settings(tmp_path: Path) -> None:
    (analyze,) = find("systemd-analyze")
    unit = tmp_path / "barnabas.service"
    text = UNIT.read_text().replace("/usr/bin/barnabas", str(BARNABAS))
    unit.write_text(re.sub("Documentation=.*\n", "", text))  # systemd-analyze calls man for it
    checked = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert "barnabas.service" not in checked.stderr, checked.stderr


@pytest.mark.parametrize("is_abstract", [False, True])
def test_the_broker_notifies_systemd_of_its_start_and_its_end(
    tmp_path: Path, is_abstract: bool, unused_name: Callable[[], str]
) -> None:
    path = f"@{unused_name()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(60)
        manager.bind("\0" + path[1:] if is_abstract else path)
        command = [BARNABAS, "serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0"]
        with serving(command, env={"NOTIFY_SOCKET": path}):
            assert manager.recv(1000) == b"READY=1\nSTATUS=Serving clients"
        assert manager.recv(1000).startswith(b"STOPPING=1\n")


def test_a_broker_starts_without_the_socket_that_it_should_notify(tmp_path: Path) -> None:
    command = [BARNABAS, "serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0"]
    with serving(command, env={"NOTIFY_SOCKET": str(tmp_path / "missing")}) as (_, lines):
        pass
    assert any("cannot notify systemd" in line for line in lines)


@pytest.fixture
def unused_name(tmp_path: Path) -> Callable[[], str]:
    return lambda: f"barnabas-test-{os.getpid()}-{tmp_path.name}"


def test_every_command_has_a_manual_page_with_its_options() -> None:
    pages = manual_pages()
    for path, command in commands():
        page = pages["-".join(path.split()[:2]) + ".1"]
        for option in command.params:
            if option.param_type_name == "option" and not option.hidden and path != "barnabas":
                assert option.opts[0].replace("-", r"\-") in page, (path, option.opts)


def test_manual_pages_are_formatted_without_warnings(tmp_path: Path) -> None:
    (groff,) = find("groff")
    for name, page in manual_pages().items():
        (tmp_path / name).write_text(page)
        formatted = subprocess.run(
            [groff, "-ww", "-man", "-Tutf8", "-z", tmp_path / name],
            capture_output=True,
            text=True,
            check=True,
        )
        assert not formatted.stderr, formatted.stderr


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("barnabas gro", "groups"),
        ("barnabas groups describe sho", "shop-readers"),
        ("barnabas consume ord", "orders"),
        ("barnabas consume orders --group sho", "shop-readers"),
        ("barnabas topics create --part", "--partitions"),
    ],
)
def test_bash_completes_commands_options_topics_and_groups(
    shop: EmbeddedBroker, line: str, completed: str
) -> None:
    script = completion_scripts()[COMPLETIONS["bash"]]
    words = line.split()
    command = f"""{script}
COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _barnabas_completion {BARNABAS}; echo "${{COMPREPLY[@]}}" """
    ended = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "BARNABAS_BOOTSTRAP": shop.bootstrap_servers},
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed in ended.stdout.split(), ended.stderr


@pytest.fixture(scope="module")
def shop() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders")
        run(
            BARNABAS,
            "consume",
            "orders",
            "--group",
            "shop-readers",
            "--exit-at-end",
            "-b",
            broker.bootstrap_servers,
        )
        yield broker


# A terminal with an interactive zsh; Tab completes and prints the line.
COMPLETE_IN_ZSH = r"""
zmodload zsh/zpty
zpty shell "zsh -f -i"
zpty -w shell "PS1= ; fpath=($XDG_DATA_DIRS/zsh/vendor-completions \$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w shell "show() { zle complete-word; print -r -- \"LINE=[\$BUFFER]\" }"
zpty -w shell "zle -N show; bindkey '^I' show; echo rea''dy"
zpty -r -m shell output "*ready*"
zpty -w -n shell "$LINE"$'\t'
zpty -r -m shell output "*LINE=\[*\]*"
print -r -- "$output"
"""
COMPLETE_IN = {"zsh": ("-f", "-c", COMPLETE_IN_ZSH), "fish": ("-c", 'complete -C "$LINE"')}


@pytest.mark.parametrize("shell", COMPLETE_IN)
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("barnabas gro", "groups"),
        ("barnabas groups describe sho", "shop-readers"),
        ("barnabas topics create --part", "--partitions"),
    ],
)
def test_zsh_and_fish_complete_as_installed(
    shop: EmbeddedBroker, tmp_path: Path, shell: str, line: str, completed: str
) -> None:
    (program,) = find(shell)
    script = tmp_path / COMPLETIONS[shell]
    script.parent.mkdir(parents=True)
    script.write_text(completion_scripts()[COMPLETIONS[shell]])
    path = f"{Path(BARNABAS).parent}:{os.environ['PATH']}"
    here = {"LINE": line, "PATH": path, "HOME": str(tmp_path), "XDG_DATA_DIRS": str(tmp_path), "TERM": "dumb"}
    ended = subprocess.run(
        [program, *COMPLETE_IN[shell]],
        env={**os.environ, **here, "BARNABAS_BOOTSTRAP": shop.bootstrap_servers},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    words = ended.stdout.rpartition("LINE=")[2].strip("[]\n").split()
    assert completed in words, ended.stdout + ended.stderr
