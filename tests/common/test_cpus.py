"""The number of usable CPUs, by control groups."""

import os
from pathlib import Path

import pytest

from barnabas.common.cpus import usable_cpus


@pytest.mark.parametrize(
    ("own", "files", "count"),
    [
        ("", {}, 8),
        ("0::/a/b\n", {"a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 2),
        ("0::/a\n", {"a/cpu.max": "50000 100000"}, 1),
        ("0::/a\n", {"cpu.max": "300000 100000", "a/cpu.max": "900000 100000"}, 3),
        ("0::/../../elsewhere\n", {}, 8),
        (
            "4:cpu,cpuacct:/c\n3:memory:/m\n",
            {"cpu,cpuacct/c/cpu.cfs_quota_us": "400000", "cpu,cpuacct/c/cpu.cfs_period_us": "100000"},
            4,
        ),
        ("4:cpu:/c\n", {"cpu/c/cpu.cfs_quota_us": "-1", "cpu/c/cpu.cfs_period_us": "100000"}, 8),
    ],
)
def test_a_quota_limits_the_cpus_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str], count: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    assert usable_cpus(tmp_path / "groups", tmp_path / "own") == count
