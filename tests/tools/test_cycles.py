"""Import cycles stay few."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_cycles


def test_no_import_cycle_is_larger_than_the_bound() -> None:
    assert check_cycles.main([]) == 0


def test_a_cycle_through_functions_types_and_exports_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {
        "app/__init__.py": "if TYPE_CHECKING:\n    from app.first import First as First",
        "app/first.py": "from app import second\nfrom app.leaf import X",
        "app/second.py": "def late():\n    import app.third",
        "app/third.py": "if TYPE_CHECKING:\n    from app import First",
        "app/leaf.py": "import os",
        "app/user.py": "from app.first import First",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    cycle = {"app", "app.first", "app.second", "app.third"}
    assert list(check_cycles.cycles_in(check_cycles.import_graph(tmp_path))) == [cycle]
    monkeypatch.setattr(check_cycles, "SRC", tmp_path)
    assert check_cycles.main([]) == 0
    monkeypatch.setattr(check_cycles, "MAX_MODULES", 3)
    assert check_cycles.main([]) == 1
    assert "    app.second imports app.third\n" in capsys.readouterr().out


def test_a_long_chain_of_imports_is_no_cycle() -> None:
    graph = {f"m{number}": {f"m{number + 1}"} for number in range(5_000)} | {"m5000": set[str]()}
    assert list(check_cycles.cycles_in(graph)) == []
    assert list(check_cycles.cycles_in({**graph, "m5000": {"m0"}})) == [set(graph)]
