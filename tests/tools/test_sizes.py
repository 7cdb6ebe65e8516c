"""Size limits of modules and folders."""

from pathlib import Path

from tools import check_sizes


def test_everything_is_small_enough() -> None:
    assert check_sizes.main() == 0


def test_a_long_module_and_a_full_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("\n" * (check_sizes.MAX_LINES + 1))
    (tmp_path / "room").mkdir()
    for number in range(check_sizes.MAX_MODULES + 1):
        (tmp_path / "room" / f"m{number}.py").write_text("")
    found = list(check_sizes.too_large(tmp_path))
    assert [text.partition(":")[0] for text in found] == [
        str(tmp_path / "long.py"),
        str(tmp_path / "room"),
    ]


def test_a_folder_may_be_full(tmp_path: Path) -> None:
    for number in range(check_sizes.MAX_MODULES):
        (tmp_path / f"m{number}.py").write_text("\n" * check_sizes.MAX_LINES)
    (tmp_path / "__init__.py").write_text("")
    assert list(check_sizes.too_large(tmp_path)) == []


def test_a_short_module_with_one_importer_is_named(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "short.py").write_text("X = 1\n")
    (tmp_path / "room" / "shared.py").write_text("Y = 1\n")
    (tmp_path / "room" / "first.py").write_text("from room.short import X\nfrom room import shared\n")
    (tmp_path / "room" / "second.py").write_text("import room.shared\n")
    (found,) = check_sizes.too_small(tmp_path, set())
    assert found.startswith("room.short ")
    assert list(check_sizes.too_small(tmp_path, {"room.short"})) == []
    (found,) = check_sizes.too_small(tmp_path, {"room.short", "room.shared"})
    assert found.startswith("room.shared needs no reason")
