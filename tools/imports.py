"""Modules and their imports, read from the source: for the checks of imports, interfaces, cycles and sizes."""

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


def modules_below(src: Path) -> dict[str, Path]:
    """Each module with its file; without the templates of pipelines, which are data."""
    return {
        module_name(path, src): path for path in sorted(src.rglob("*.py")) if "template" not in path.parts
    }


def module_name(path: Path, src: Path) -> str:
    return ".".join(path.relative_to(src).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path: Path) -> Iterator[Import]:
    """Every absolute import, including those inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (Import(node.lineno, node.module, alias.name) for alias in node.names)
