"""Bound of import cycles: modules that import each other, directly or through others.

    python -m tools.check_cycles           # fails on a cycle of more than MAX_MODULES
    python -m tools.check_cycles --list    # all cycles, each module with its imports within the cycle

Every import counts, also those inside functions and those for type checkers only: a reader follows them as well. An
`__init__` imports the names that it exports.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from tools.imports import imports_of, modules_below

SRC = Path(__file__).parent.parent / "src"

MAX_MODULES = 5

Graph = Mapping[str, Set[str]]
"""Module -> modules that it imports."""


def main(arguments: list[str]) -> int:
    graph = import_graph(SRC)
    cycles = sorted(cycles_in(graph), key=lambda cycle: (-len(cycle), min(cycle)))
    requested = cycles if arguments == ["--list"] else [each for each in cycles if len(each) > MAX_MODULES]
    for cycle in requested:
        print(f"import cycle of {len(cycle)} modules:")
        for module in sorted(cycle):
            print(f"    {module} imports {', '.join(sorted(graph[module] & cycle))}")
    largest = max(map(len, cycles), default=0)
    if largest > MAX_MODULES:
        print(f"import cycles: {MAX_MODULES} modules are allowed: move what several of them need below them")
        return 1
    print(f"import cycles: {len(cycles)}, of at most {largest} modules")
    return 0


def import_graph(src: Path) -> dict[str, set[str]]:
    modules = modules_below(src)
    return {
        module: {imported.target(modules) for imported in imports_of(path)} & modules.keys() - {module}
        for module, path in modules.items()
    }


def cycles_in(graph: Graph) -> Iterator[set[str]]:
    """Yield the strongly connected components of several modules (Kosaraju's algorithm)."""
    importers: dict[str, set[str]] = {module: set() for module in graph}
    for module, imported in graph.items():
        for each in imported:
            importers[each].add(module)
    seen: set[str] = set()
    finished = [module for start in graph for module in _in_postorder(graph, start, seen)]
    seen.clear()
    for start in reversed(finished):
        component = set(_in_postorder(importers, start, seen))
        if len(component) > 1:
            yield component


def _in_postorder(graph: Graph, start: str, seen: set[str]) -> Iterator[str]:
    """Yield the unseen modules that are reached from `start`, each after those that it leads to."""
    if start in seen:
        return
    seen.add(start)
    path = [(start, iter(graph[start]))]
    while path:
        module, following = path[-1]
        unseen = next((each for each in following if each not in seen), None)
        if unseen is None:
            path.pop()
            yield module
        else:
            seen.add(unseen)
            path.append((unseen, iter(graph[unseen])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
