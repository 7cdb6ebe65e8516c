"""Every vulnerability listed in docs/security.md has a test with its number, and every such test a row."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = (ROOT / "docs/security.md").read_text().partition("| CVE | vulnerability | Barnabas |")[2]


def numbers_of_tests() -> set[str]:
    names = re.compile(r"def (test_\w*(?:cve|rustsec)_\w+)")
    found = (name for path in ROOT.glob("tests/**/*.py") for name in names.findall(path.read_text()))
    return {
        f"{year}-{number}"
        for name in found
        for year, number in re.findall(r"_(20\d\d)_(\d{4,6})_", f"{name}_")
    }


def test_every_weakness_in_the_table_has_a_test_and_every_test_a_row() -> None:
    rows = [line.split("|")[1] for line in TABLE.splitlines() if line.startswith("| ")]
    numbers = set(re.findall(r"20\d\d-\d{4,6}", " ".join(rows)))
    assert len(numbers) > 20
    assert numbers_of_tests() == numbers
