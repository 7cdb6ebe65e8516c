"""The arithmetic in docs/scale.md is that of the code's constants."""

from benchmarks.petabyte import Petabyte, entry_bytes, entry_memory, table
from tests.support.programs import PROJECT_ROOT


def test_page_equals_the_constants() -> None:
    page = (PROJECT_ROOT / "docs" / "scale.md").read_text().splitlines()
    missing = [line for line in table() if line not in page]
    assert not missing, "python -m benchmarks.petabyte prints the table"


def test_copying_and_reading_a_gibibyte_take_as_many_requests_as_the_design_allows() -> None:
    full = Petabyte(100)
    assert full.segment == 1 << 30
    assert (full.copy_writes + full.copy_reads) / full.entries <= 70
    assert full.read_all / full.entries <= 260


def test_a_manifest_stays_small() -> None:
    assert entry_bytes() < 250
    assert entry_memory() < 1000
    assert max(Petabyte(partitions).manifest_bytes for partitions in (1, 100, 10_000)) < 500_000
