"""Packages are imported through their public interface."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from tools import check_interfaces

SRC = Path(__file__).parents[2] / "src" / "barnabas"
LAZY = [path for path in sorted(SRC.rglob("__init__.py")) if "lazy_exports(" in path.read_text()]


def test_no_new_private_module_is_imported_from_outside() -> None:
    assert check_interfaces.main([]) == 0


def test_an_import_of_a_private_module_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "barnabas/__init__.py": "",
        "barnabas/log/__init__.py": "",
        "barnabas/log/segment.py": "X = 1",
        "barnabas/common/__init__.py": "",
        "barnabas/common/clock.py": "X = 1",
        "barnabas/broker/__init__.py": "from barnabas.log.segment import X",
        "barnabas/broker/main.py": "from barnabas.common import clock\nimport barnabas.log",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(check_interfaces, "SRC", tmp_path)
    assert check_interfaces.imported_from_outside() == {"barnabas.log.segment": {"barnabas.broker"}}


@pytest.mark.parametrize("path", LAZY, ids=lambda path: ".".join(path.relative_to(SRC).parts[:-1]))
def test_the_typed_imports_of_an_interface_are_its_exports(path: Path) -> None:
    package = "barnabas." + ".".join(path.relative_to(SRC).parts[:-1])
    typed = {
        alias.name: node.module
        for block in ast.parse(path.read_text()).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert import_module(package).__all__ == sorted(typed)
    assert [module for module in typed.values() if not f"{module}".startswith(f"{package}.")] == []
