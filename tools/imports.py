"""The imports of a module, read from its source: for the checks of imports, interfaces and sizes."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from pathlib import Path
from typing import NamedTuple


class Import(NamedTuple):
    """`import module`, or one name of `from module import name`."""

    line: int
    module: str
    name: str | None = None

    def target(self, modules: Container[str]) -> str:
        """The module that is imported: `name` is one itself if it is in `modules`."""
        inner = f"{self.module}.{self.name}"
        return inner if self.name and inner in modules else self.module


def imports_of(path: Path) -> Iterator[Import]:
    """Every absolute import, including those inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (Import(node.lineno, node.module, alias.name) for alias in node.names)
