"""Exports that are imported on first use."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.waiting import until

INTERFACE = """from typing import TYPE_CHECKING
from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from lazy_package.slow import NAME as NAME
    from lazy_package.slow import (
        LONG as LONG,
    )
    from lazy_package.slow import PRIVATE
else:
    __getattr__ = lazy_exports(__name__)
"""
SLOW = "import time; time.sleep(0.5); NAME, LONG, PRIVATE = 1, 2, 3"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "lazy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(INTERFACE)
    (folder / "slow.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("lazy_package", "lazy_package.slow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "lazy_package"


def test_threads_that_ask_for_a_name_at_the_same_time_all_get_it(package: str) -> None:
    lazy, results = import_module(package), list[object]()

    def ask() -> None:
        results.append(lazy.NAME)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    threads[0].start()
    until(lambda: f"{package}.slow" in sys.modules, "the first thread executes the module")
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [1] * 4


def test_the_exports_are_the_imports_under_the_same_name(package: str) -> None:
    lazy = import_module(package)
    assert lazy.__all__ == ["LONG", "NAME"]
    assert f"{package}.slow" not in sys.modules
    assert lazy.LONG == 2


@pytest.mark.parametrize("name", ["OTHER", "PRIVATE"])
def test_an_unknown_name_is_an_attribute_error(package: str, name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'lazy_package' has no attribute '{name}'"):
        getattr(import_module(package), name)
