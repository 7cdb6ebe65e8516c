"""How large a module and a folder may become: what is larger has a part that deserves its own name.

    python -m tools.check_sizes

For the code that is installed, and for benchmarks and tools.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("src", "benchmarks", "tools")

MOST_LINES = 400  # of a module
MOST_MODULES = 25  # of a folder, its sub-folders and __init__ not counted


def main() -> int:
    problems = [problem for name in FOLDERS for problem in too_large(ROOT / name)]
    for problem in problems:
        print(problem)
    print(f"sizes: {len(problems)} too large" if problems else "sizes kept")
    return 1 if problems else 0


def too_large(folder: Path) -> Iterator[str]:
    modules = [path for path in sorted(folder.rglob("*.py")) if path.name != "__init__.py"]
    for path in modules:
        lines = len(path.read_text().splitlines())
        if lines > MOST_LINES:
            yield f"{path}: {lines} lines, more than {MOST_LINES}: move a part of it out"
    for parent, count in Counter(path.parent for path in modules).items():
        if count > MOST_MODULES:
            yield f"{parent}: {count} modules, more than {MOST_MODULES}: give it sub-folders that mean something"


if __name__ == "__main__":
    sys.exit(main())
