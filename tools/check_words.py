"""Report banned phrases in messages, docstrings, comments and Markdown.

    python -m tools.check_words                 # fails if a folder has more findings than ALLOWED, or fewer
    python -m tools.check_words --list groups   # every finding below src/barnabas/groups (or docs, tools, ...)
    python -m tools.check_words --lower         # record that fewer are left

The glossary with the phrase to use instead is in CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tools import allowances

ROOT = Path(__file__).parent.parent

# phrase -> what to write instead
PHRASES = {
    r"\b(?:is|are|was|were) no (?!longer\b|more\b)[a-z]": "is not a valid ..., is not a ...",
    r"\brests\b": "is paused, waits",
    r"\bstands?\b(?!-)": "is, means, has",
    r"\bunder way\b": "in progress",
    r"\b(?:go|goes|going|went|gone) on\b": "continue, resume",
    r"\bcall(?:s|ed|ing)? off\b": "cancel",
    r"\b(?:is|are) in order\b": "OK, valid",
    r"\bwrit(?:e|es|ten) down\b": "record, log",
    r"\b(?:told|tells?|telling)\b": "notify, report, return",
    r"\bby (?:itself|themselves)\b": "automatically, alone",
    r"\ba look\b|\blook(?:s|ed|ing)? (?:at|whether)\b": "check, read, inspect",
    r"\bof (?:its|their|our|his|her|one's) own\b": "separate, its",
    r"\b(?:nobody|somebody|whoever|everybody)\b|\bwho has\b": "name the subject: no broker, another client, the caller",
    r"\bonce more\b|\bfor ever\b|\banew\b": "again, indefinitely",
    r"\blies? (?:in|on|at|under|below|behind)\b": "is in, is stored in",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bgone\b": "closed, deleted, disconnected",
    r"\bbeside\b": "next to, in addition to",
    r"\blets? in\b": "admit, authenticate",
    r"\bin words\b|\bas people\b": "as text, for display",
    r"\bhold(?:s|ing)? (?:the loop|everybody|others) up\b": "block",
    r"\bin vain\b": "without success",
    r"\bexclude each other\b": "are mutually exclusive",
    r"\bcut short\b": "truncated",
    r"\bnot there any more\b|\bnot exist any more\b": "no longer exists",
}
PATTERN = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES), re.IGNORECASE)
# Docstrings of modules, classes and functions begin with a verb or a noun.
OPENING = re.compile(r"(?:What|How|Who|Whether|Where|When|Why|Which|May|Does|Do|Has|Is|Are)\b")

TEST_NAMES = re.compile(r"def (test_\w+)")
UNCLEAR_NAME = re.compile(
    r"_(?:what|told|tells?|nobody|somebody|everybody|whoever|whatever|anew|said|says|gone|beside)(?=_|$)"
)

TEMPLATES = ROOT / "src" / "barnabas" / "services" / "console" / "templates"
MARKDOWN = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "COMPATIBILITY.md")
# Historical records are not reworded; generated pages take their text from the code.
OLD = ("docs/decisions", "docs/proof")

# folder -> findings that are left
ALLOWED: dict[str, int] = allowances.read("phrases")


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--list"]:
        for folder, where, text in findings():
            if folder in arguments[1:]:
                print(f"{where}: {text}")
        return 0
    counts = Counter(folder for folder, _, _ in findings())
    if arguments == ["--lower"]:
        allowances.lower("phrases", counts)
        return 0
    wrong = [name for name in sorted({*counts, *ALLOWED}) if counts[name] != ALLOWED.get(name, 0)]
    for name in wrong:
        print(f"{name}: {counts[name]} banned phrases, {ALLOWED.get(name, 0)} are allowed")
    print("words: see `python -m tools.check_words --list FOLDER`" if wrong else "words kept")
    return 1 if wrong else 0


def findings() -> Iterator[tuple[str, str, str]]:
    """(folder, path:line, text) of every banned phrase."""
    for top in ("src", "simulation", "examples", "tools", "benchmarks"):
        for path in sorted((ROOT / top).rglob("*.py")):
            if path != Path(__file__):
                yield from _in_module(path)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        yield from _in_test(path)
    for path in sorted(TEMPLATES.rglob("*.html")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            where = f"{path.relative_to(ROOT)}:{number}"
            yield from (("services/console", where, found) for found in _phrases(line))
    for path in [*(ROOT / name for name in MARKDOWN), *sorted((ROOT / "docs").rglob("*.md"))]:
        relative = str(path.relative_to(ROOT))
        if not relative.startswith(OLD):
            for number, line in enumerate(_without_glossary(path.read_text()).splitlines(), 1):
                yield from (("docs", f"{relative}:{number}", found) for found in _phrases(line))


def _without_glossary(text: str) -> str:
    """The text with blank lines in place of the section of CONTRIBUTING.md that lists the banned phrases."""
    return re.sub(r"(?ms)^## Words\n.*?(?=^## )", lambda match: "\n" * match[0].count("\n"), text)


def _in_module(path: Path) -> Iterator[tuple[str, str, str]]:
    relative = path.relative_to(ROOT)
    parts = relative.parts[2:] if relative.parts[0] == "src" else relative.parts
    folder = parts[0].removesuffix(".py")
    if folder == "services" and len(parts) > 2:
        folder = f"services/{parts[1]}"
    source = path.read_text()
    for line, text in [*_texts(source), *_comments(source)]:
        yield from ((folder, f"{relative}:{line}", found) for found in _phrases(text))
    for line, text in _docstrings(source):
        if OPENING.match(text) and not text.split("\n", 1)[0].endswith("?"):
            yield folder, f"{relative}:{line}", f"docstring begins with {text.split()[0]}: {text[:70]!r}"


def _in_test(path: Path) -> Iterator[tuple[str, str, str]]:
    """Docstrings, comments and names of tests; other strings of a test are data."""
    source = path.read_text()
    for line, text in [*_docstrings(source), *_comments(source)]:
        yield from (("tests", f"{path.relative_to(ROOT)}:{line}", found) for found in _phrases(text))
    for name in TEST_NAMES.findall(source):
        if found := UNCLEAR_NAME.search(name):
            yield "tests", str(path.relative_to(ROOT)), f"{name}: name the subject instead of {found[0]!r}"


def _phrases(text: str) -> Iterator[str]:
    plain = re.sub(r"\s+", " ", text)
    for found in PATTERN.finditer(plain):
        yield f"...{plain[max(0, found.start() - 30) : found.end() + 30]}..."


def _texts(source: str) -> Iterator[tuple[int, str]]:
    """All strings of the module, including messages and docstrings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
