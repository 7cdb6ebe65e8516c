"""Packages installed during setup are pinned with hashes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILES = [ROOT / "Makefile", ROOT / "tools" / "counterparts.mk"]
SCRIPTS = [*MAKEFILES, *sorted((ROOT / ".ci").iterdir()), *sorted((ROOT / "tools").glob("install-*"))]


def installations(script: Path) -> list[str]:
    """Commands of pip and uv, each on one line."""
    text = script.read_text().replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if re.search(r"\bpip3? install\b", line)]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_packages_are_installed_by_their_hashes(script: Path) -> None:
    of_others = [line for line in installations(script) if "--editable ." not in line]
    assert [line for line in of_others if "--require-hashes" not in line] == []


def test_the_makefile_installs_packages() -> None:
    assert len(installations(ROOT / "Makefile")) >= 4


@pytest.mark.parametrize("file", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.name)
def test_every_requirement_has_a_version_and_hashes(file: Path) -> None:
    requirements = re.split(r"\n(?=\S)", file.read_text().strip())
    assert [each for each in requirements if "==" not in each or "--hash=sha256:" not in each] == []
