"""Size limits of modules and folders.

    python -m tools.check_sizes

Upper limits apply to installed code, benchmarks and tools: a larger module should be split. The lower limit applies to
installed code: a short module with a single importer in its folder should be merged.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tools.imports import imports_of, modules_below

ROOT = Path(__file__).parent.parent
FOLDERS = ("src", "benchmarks", "tools")

MAX_LINES = 400  # per module
MAX_MODULES = 25  # per folder, without sub-folders and __init__
MIN_LINES = 60  # for a module with a single importer in its folder

# Short modules with one importer that are separate for a reason.
SEPARATE = {
    "a page or a command each": [
        "barnabas.cli.pipeline.feed",
        "barnabas.cli.cluster.protecting",
    ],
    "Kafka's class": ["barnabas.broker.dynamic_config"],
    "imported late, so that a start stays fast": [
        "barnabas.cli.cluster.plans",
        "barnabas.cli.log.missing",
        "barnabas.spark.source.protobuf",
        "barnabas.spark.source.rows",
        "barnabas.tables.latest",
    ],
    "the importer would exceed the upper bound": ["barnabas.network.token_frames"],
}


def main() -> int:
    problems = [problem for name in FOLDERS for problem in too_large(ROOT / name)]
    problems += too_small(ROOT / "src", {module for modules in SEPARATE.values() for module in modules})
    for problem in problems:
        print(problem)
    print(f"sizes: {len(problems)} out of bounds" if problems else "sizes kept")
    return 1 if problems else 0


def too_large(folder: Path) -> Iterator[str]:
    modules = [path for path in sorted(folder.rglob("*.py")) if path.name != "__init__.py"]
    for path in modules:
        lines = len(path.read_text().splitlines())
        if lines > MAX_LINES:
            yield f"{path}: {lines} lines, more than {MAX_LINES}: move a part of it out"
    for parent, count in Counter(path.parent for path in modules).items():
        if count > MAX_MODULES:
            yield f"{parent}: {count} modules, more than {MAX_MODULES}: give it sub-folders that mean something"


def too_small(src: Path, separate: set[str]) -> Iterator[str]:
    """Short modules whose only importer is in the same folder, and unnecessary entries of `separate`."""
    modules = {module: path for module, path in modules_below(src).items() if not path.name.startswith("__")}
    importers = _importers(src, modules)
    detours = {
        module
        for module, path in modules.items()
        if len(path.read_text().splitlines()) < MIN_LINES
        and len(importers[module]) == 1
        and next(iter(importers[module])).parent == path.parent
        and next(iter(importers[module])).name != "__init__.py"
    }
    for module in sorted(detours - separate):
        yield f"{module} has fewer than {MIN_LINES} lines and one importer: merge it, or give a reason in SEPARATE"
    for module in sorted(separate - detours):
        yield f"{module} needs no reason in SEPARATE any more"


def _importers(src: Path, modules: dict[str, Path]) -> dict[str, set[Path]]:
    found: dict[str, set[Path]] = defaultdict(set)
    for path in src.rglob("*.py"):
        for imported in imports_of(path):
            found[imported.target(modules)].add(path)
    return found


if __name__ == "__main__":
    sys.exit(main())
