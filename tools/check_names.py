"""Check that a public class name exists once, that banned identifiers are not used, and that tests wait in one way.

python -m tools.check_names           # fails on a new duplicate or banned name, and on a needless allowance
python -m tools.check_names --list    # every duplicate and banned name, with its modules
python -m tools.check_names --lower   # record that fewer are left
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tools import allowances

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "barnabas"
MESSAGES = SRC / "protocol" / "messages"  # Kafka names these: a struct of a message may occur in several

# Identifiers that are private language. What to write instead: CONTRIBUTING.md, "Glossary".
BANNED = re.compile(
    r"_?_?(?:MOST|LONGEST|LARGEST|SHORTEST)_\w+|_tell\w*|tell_\w+|places?|_?Host|PATIENCE\w*"
    r"|said|told|wanted|gone|ours|theirs|mine|chance|complaints?|standings?|belongings|overruled|nobody|taste_\w+"
)

# Class names that are defined more than once, and banned identifiers by top folder.
ALLOWED_CLASSES: frozenset[str] = frozenset(allowances.read("classes"))
ALLOWED_NAMES: dict[str, int] = allowances.read("identifiers")

TESTS = ROOT / "tests"
WAITING = TESTS / "support" / "waiting.py"  # the only module below tests that defines these
WAITS = re.compile(r"_?(?:async_)?(?:until|wait_until|eventually)")


def main(arguments: list[str]) -> int:
    duplicates = {name: where for name, where in classes().items() if len(where) > 1}
    banned = banned_names()
    if arguments == ["--list"]:
        for name, where in sorted(duplicates.items()):
            print(f"class {name}: {', '.join(where)}")
        for folder, found in sorted(banned.items()):
            print(*(f"{folder}: {one}" for one in found), sep="\n")
        return 0
    if arguments == ["--lower"]:
        allowances.write("classes", sorted(ALLOWED_CLASSES & duplicates.keys()))
        allowances.lower("identifiers", {folder: len(found) for folder, found in banned.items()})
        return 0
    problems = [
        *(
            f"class {name} exists in {', '.join(where)}"
            for name, where in duplicates.items()
            if name not in ALLOWED_CLASSES
        ),
        *(
            f"class {name} exists once: run `python -m tools.check_names --lower`"
            for name in ALLOWED_CLASSES - duplicates.keys()
        ),
        *(
            f"{folder}: {len(banned[folder])} banned identifiers, {ALLOWED_NAMES.get(folder, 0)} are allowed"
            for folder in sorted({*banned, *ALLOWED_NAMES})
            if len(banned[folder]) != ALLOWED_NAMES.get(folder, 0)
        ),
        *(f"{where}: import it from tests.support.waiting" for where in own_waits()),
    ]
    print(*sorted(problems), sep="\n", end="\n" if problems else "")
    print("names: see `python -m tools.check_names --list`" if problems else "names kept")
    return 1 if problems else 0


def classes() -> dict[str, list[str]]:
    """Public class name -> modules that define it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SRC.rglob("*.py")):
        if MESSAGES not in path.parents and "template" not in path.parts:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(_module(path))
    return found


def banned_names() -> dict[str, list[str]]:
    """Top folder -> banned identifiers that are bound there."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SRC.rglob("*.py")):
        folder = path.relative_to(SRC).parts[0].removesuffix(".py")
        for line, name in _bound(ast.parse(path.read_text())):
            if BANNED.fullmatch(name):
                found[folder].append(f"{path.relative_to(ROOT)}:{line}: {name}")
    return found


def own_waits() -> list[str]:
    """Test modules with their own `until`, `wait_until` or `eventually`, function or method."""
    return [
        f"{path.relative_to(TESTS.parent)}:{node.lineno}: def {node.name}"
        for path in sorted(TESTS.rglob("*.py"))
        if path != WAITING
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and WAITS.fullmatch(node.name)
    ]


def _bound(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
