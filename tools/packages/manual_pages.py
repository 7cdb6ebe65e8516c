"""Manual pages and shell completion, from the commands themselves, as docs/commands.md.

    python -m tools.packages.manual_pages FOLDER

`barnabas.1` lists the commands; each command or group of commands has a page `barnabas-NAME.1`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from typer._completion_shared import get_completion_script

from barnabas.common.version import __version__
from tools.doc_commands import Command, commands, options_of

# Shell -> path below /usr/share, where distributions put the completion of a package.
COMPLETIONS = {
    "bash": "bash-completion/completions/barnabas",
    "zsh": "zsh/vendor-completions/_barnabas",
    "fish": "fish/vendor_completions.d/barnabas.fish",
}
# zsh loads the file at the first Tab, which shall complete, too.
AUTOLOADED = '\n[[ $zsh_eval_context[-1] == loadautofunc ]] && _barnabas_completion "$@"\n'
ENVIRONMENT = {
    "BARNABAS_BOOTSTRAP": "Brokers of the cluster, instead of --bootstrap-server.",
    "BARNABAS_COMMAND_CONFIG": "A properties file with security settings, instead of --command-config.",
}


def manual_pages() -> dict[str, str]:
    """File name -> text in roff."""
    by_path = dict(commands())
    root = by_path.pop("barnabas")
    top = {path: command for path, command in by_path.items() if path.count(" ") == 1}
    pages = {"barnabas.1": _overview(root, top)}
    for path, command in top.items():
        inner = {name: each for name, each in by_path.items() if name.startswith(f"{path} ")}
        pages[f"{path.replace(' ', '-')}.1"] = "\n".join(_page(path, command, inner)) + "\n"
    return pages


def completion_scripts() -> dict[str, str]:
    """Path below /usr/share -> script. Topics and groups are read from the cluster when the user presses Tab."""
    scripts = {
        path: get_completion_script(prog_name="barnabas", complete_var="_BARNABAS_COMPLETE", shell=shell)
        for shell, path in COMPLETIONS.items()
    }
    scripts[COMPLETIONS["zsh"]] += AUTOLOADED
    return {path: script.strip() + "\n" for path, script in scripts.items()}


def _overview(root: Command, top: dict[str, Command]) -> str:
    lines = [*_head("barnabas", "a broker with the protocol of Apache Kafka"), ".SH SYNOPSIS"]
    lines += [
        r".B barnabas \fICOMMAND\fR [\fIOPTION\fR...]",
        ".SH DESCRIPTION",
        *_paragraphs(root.help or ""),
    ]
    lines.append(".SH COMMANDS")
    for path, command in top.items():
        lines += [".TP", rf"\fB{_escaped(path.replace(' ', '-'))}\fR(1)", _escaped(_summary(command))]
    lines.append(".SH ENVIRONMENT")
    for name, text in ENVIRONMENT.items():
        lines += [".TP", f".B {name}", _escaped(text)]
    lines += [".SH EXIT STATUS", "0 on success, 1 on errors, 2 on wrong options or settings."]
    lines += [".SH FILES", ".TP", ".I /etc/barnabas/server.properties", "Settings of the systemd service."]
    return "\n".join(lines) + "\n"


def _page(path: str, command: Command, inner: dict[str, Command]) -> Iterator[str]:
    yield from _head(path.replace(" ", "-"), _summary(command))
    yield ".SH SYNOPSIS"
    for name, each in inner.items() or [(path, command)]:
        if not hasattr(each, "list_commands"):
            yield rf".B {_escaped(name)}" + (r" [\fIOPTION\fR...]" if each.params else "")
            yield ".br"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command.help or "")
    yield from _options(command, ".SH OPTIONS")
    for name, each in inner.items():
        yield f".SH {_escaped(name).upper()}"
        yield from _paragraphs(each.help or "")
        yield from _options(each, ".PP")
    yield ".SH SEE ALSO"
    yield r".BR barnabas (1)"


def _head(name: str, summary: str) -> list[str]:
    title = f'.TH "{name.upper()}" 1 "" "Barnabas {__version__}" "Barnabas"'
    return [title, ".SH NAME", rf"{_escaped(name)} \- {_escaped(summary.rstrip('.'))}"]


def _summary(command: Command) -> str:
    """The first sentence of its help, on one line."""
    paragraph = " ".join((command.help or "").split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".") + "."


def _options(command: Command, heading: str) -> Iterator[str]:
    options = list(options_of(command))
    if options:
        yield heading
    for names, text in options:
        yield ".TP"
        yield rf"\fB{_escaped(names)}\fR"
        yield _escaped(" ".join(text.split()) or "(no description)")


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of a help text; indented lines are examples."""
    for paragraph in text.strip().split("\n\n"):
        if paragraph.startswith("  "):
            yield from (".PP", ".in +4n", ".nf")
            yield from (_escaped(line.strip()) for line in paragraph.splitlines())
            yield from (".fi", ".in")
        else:
            yield ".PP"
            yield _escaped(" ".join(paragraph.split()))


def _escaped(text: str) -> str:
    """Text for roff: no character of it is a request or changes."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("`", r"\(ga").replace("^", r"\(ha")
    escaped = escaped.replace("~", r"\(ti").replace("'", r"\(aq")
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


def main() -> int:
    folder = Path(sys.argv[1])
    for name, page in manual_pages().items():
        path = folder / "man/man1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    for name, script in completion_scripts().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
