"""Exports that are imported on first use."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from barnabas.common.lazy import lazy_exports
from tests.support.waiting import until

SLOW = "import time; time.sleep(0.5); NAME = 1"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "lazy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "slow.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("lazy_package", "lazy_package.slow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "lazy_package"


def test_threads_that_ask_for_a_name_at_the_same_time_all_get_it(package: str) -> None:
    get, results = lazy_exports(package, {"slow": "NAME"}), list[object]()

    def ask() -> None:
        results.append(get("NAME"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    threads[0].start()
    until(lambda: f"{package}.slow" in sys.modules, "the first thread executes the module")
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [1] * 4


def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match="module 'lazy_package' has no attribute 'OTHER'"):
        lazy_exports(package, {"slow": "NAME"})("OTHER")
