"""Command lines of the documentation: every `barnabas ...` in a code block or a code span names commands and options
that exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, NamedTuple

import typer

from tools.doc_marks import ROOT

_BLOCK = re.compile(r"^(?:    |```)", re.MULTILINE)
_SPAN = re.compile(r"`(barnabas [^`]+)`")
_START = re.compile(r"(?:^|\||&&|;|\$\(|sudo |exec )\s*(?:\.venv/bin/)?(barnabas\s.*)")
_PLACEHOLDER = re.compile(r"\.\.\.|…|<[^>]*>")

# Pages about earlier versions, and generated ones.
_SKIPPED = ("CHANGELOG.md", "docs/commands.md", "docs/decisions/")


class CommandLine(NamedTuple):
    page: str
    text: str
    is_block: bool  # of a code block; otherwise a code span, which may name a part of a command only


def command_lines() -> Iterator[CommandLine]:
    for path in [*ROOT.glob("*.md"), *sorted(ROOT.glob("docs/**/*.md"))]:
        page = path.relative_to(ROOT).as_posix()
        if not page.startswith(_SKIPPED):
            lines = _lines_of(path.read_text(encoding="utf-8"))
            yield from (CommandLine(page, text, is_block) for text, is_block in lines)


def _lines_of(text: str) -> Iterator[tuple[str, bool]]:
    is_fenced = False
    for line in _joined(text).splitlines():
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif is_fenced or line.startswith("    "):
            yield from ((match[1], True) for match in _START.finditer(line.strip().removeprefix("$ ")))
        else:
            yield from ((text, False) for text in _SPAN.findall(line))


def _joined(text: str) -> str:
    """Lines that continue with a backslash as one."""
    return re.sub(r"\\\n\s*", " ", text)


def wrong_command_lines() -> Iterator[str]:
    from barnabas.cli.main import make_app

    root = typer.main.get_command(make_app())
    for line in command_lines():
        complaint = complaint_about(root, line.text)
        if complaint:
            yield f"{line.page}: `{line.text}`: {complaint}"


def words_of(text: str) -> list[str]:
    """The arguments of the command, without what the shell does with its output; ValueError for an open quotation."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|<>&;()")
    lexer.whitespace_split = True
    return list(
        takewhile(lambda word: word[0] not in lexer.punctuation_chars, (word or " " for word in lexer))
    )[1:]


def complaint_about(root: Any, text: str) -> str:
    """The error in a command line; empty if there is none."""
    try:
        words = words_of(text)
    except ValueError:  # an open quotation mark: the line is shortened
        return ""
    command, options = root, root.params
    while words and hasattr(command, "commands"):
        if words[0].startswith("-"):
            break
        name = words.pop(0)
        if not name[0].islower() or _PLACEHOLDER.search(name):  # `barnabas COMMAND --help`
            return ""
        found = command.commands.get(name)
        if found is None:
            return "" if "|" in name or "," in name else f"no command {name!r}"
        command = found
        options = command.params
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}
    for word in words:
        if word == "--":
            break
        name = word.partition("=")[0].rstrip(",.;:")
        if name.startswith("--") and name not in known and "|" not in name:
            return f"no option {name}"
    return ""
