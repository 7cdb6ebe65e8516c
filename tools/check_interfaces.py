"""Check that a package is imported through its public interface: the names that its `__init__` re-exports.

    python -m tools.check_interfaces           # fails on a new import of another package's private module
    python -m tools.check_interfaces --list    # the modules that are still imported from outside, with their importers
    python -m tools.check_interfaces --lower   # record that fewer are

A package is a top folder of src/barnabas, or of services. Modules of common, protocol and config are public.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from tools import allowances
from tools.imports import imports_of, modules_below

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"
OPEN = {"common", "protocol", "config"}


def main(arguments: list[str]) -> int:
    private = imported_from_outside()
    if arguments == ["--list"]:
        for module, importers in sorted(private.items()):
            print(f"{module}: {', '.join(sorted(importers))}")
        return 0
    allowed = set(allowances.read("modules"))
    if arguments == ["--lower"]:
        allowances.write("modules", sorted(allowed & private.keys()))
        return 0
    problems = [
        *(
            f"{importer} imports {module}, which is private: export the name in {module.rpartition('.')[0]}"
            for module in sorted(private.keys() - allowed)
            for importer in sorted(private[module])
        ),
        *(
            f"{module} is not imported from outside: run `python -m tools.check_interfaces --lower`"
            for module in sorted(allowed - private.keys())
        ),
    ]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"interfaces: {len(problems)} problems" if problems else "interfaces kept")
    return 1 if problems else 0


def imported_from_outside() -> dict[str, set[str]]:
    """Private module -> modules of other packages that import it."""
    modules = {module: path for module, path in modules_below(SRC).items() if module.startswith("barnabas")}
    found: dict[str, set[str]] = defaultdict(set)
    for importer, path in modules.items():
        for module in (imported.target(modules) for imported in imports_of(path)):
            if module not in modules:
                continue
            is_private = modules[module].name != "__init__.py" and _package(module) not in OPEN
            if is_private and _package(module) != _package(importer):
                found[module].add(importer)
    return found


def _package(module: str) -> str:
    parts = module.split(".")
    return "/".join(parts[1:3]) if parts[1:2] == ["services"] else (parts[1] if len(parts) > 1 else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
