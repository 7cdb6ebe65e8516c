"""Parsing of a module's imports."""

from __future__ import annotations

from pathlib import Path

from tools.imports import Import, imports_of

SOURCE = """
import os, barnabas.log
from urllib import request as r, parse

def late():
    from barnabas.common import clock
    from . import sibling
"""


def test_every_absolute_import_is_found_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    assert list(imports_of(path)) == [
        Import(2, "os"),
        Import(2, "barnabas.log"),
        Import(3, "urllib", "request"),
        Import(3, "urllib", "parse"),
        Import(6, "barnabas.common", "clock"),
    ]


def test_a_name_that_is_a_module_is_the_target() -> None:
    modules = {"barnabas.common", "barnabas.common.clock"}
    assert Import(1, "barnabas.common", "clock").target(modules) == "barnabas.common.clock"
    assert Import(1, "barnabas.common.clock", "SystemClock").target(modules) == "barnabas.common.clock"
    assert Import(1, "barnabas.common").target(modules) == "barnabas.common"
