"""Modules and folders stay small enough to be read."""

from pathlib import Path

from tools import check_sizes


def test_everything_is_small_enough() -> None:
    assert check_sizes.main() == 0


def test_a_long_module_and_a_full_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("\n" * (check_sizes.MOST_LINES + 1))
    (tmp_path / "room").mkdir()
    for number in range(check_sizes.MOST_MODULES + 1):
        (tmp_path / "room" / f"m{number}.py").write_text("")
    found = list(check_sizes.too_large(tmp_path))
    assert [text.partition(":")[0] for text in found] == [
        str(tmp_path / "long.py"),
        str(tmp_path / "room"),
    ]


def test_a_folder_may_be_full(tmp_path: Path) -> None:
    for number in range(check_sizes.MOST_MODULES):
        (tmp_path / f"m{number}.py").write_text("\n" * check_sizes.MOST_LINES)
    (tmp_path / "__init__.py").write_text("")
    assert list(check_sizes.too_large(tmp_path)) == []
