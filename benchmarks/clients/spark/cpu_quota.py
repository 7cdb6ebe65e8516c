"""Limits processes to a share of a core and measures their CPU time, with a cgroup (version 1 or 2) for each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType

from tests.support.programs import descendants
from tests.support.waiting import retry

ROOT = Path("/sys/fs/cgroup")
PERIOD_MICROSECONDS = 100_000
IS_UNIFIED = (ROOT / "cgroup.controllers").exists()


class CpuQuota:
    """Groups are removed at the end, when their processes have ended or after they have been moved out."""

    def __init__(self) -> None:
        self._groups: list[list[Path]] = []

    def __enter__(self) -> CpuQuota:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for folder in [folder for folders in self._groups for folder in folders]:
            retry(partial(_remove, folder), OSError, f"{folder} has processes")

    def limit(self, program: str, word: str, cores: float) -> None:
        """One group for each process with both in its command line, together with its descendants."""
        found = list(_processes(program, word))
        if not found:
            raise RuntimeError(f"no process of {program} with {word} to limit")
        for process in found:
            number = len(self._groups)
            names = [""] if IS_UNIFIED else ["cpu", "cpuacct"]
            folders = [ROOT / name / f"barnabas-{os.getpid()}-{number}" for name in names]
            for folder in folders:
                folder.mkdir()
            self._groups.append(folders)
            quota = round(cores * PERIOD_MICROSECONDS)
            if IS_UNIFIED:
                (folders[0] / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
            else:
                (folders[0] / "cpu.cfs_quota_us").write_text(str(quota))
            for member in [process, *descendants(process)]:
                for folder in folders:
                    (folder / "cgroup.procs").write_text(str(member))

    def cpu_seconds(self) -> float:
        return sum(_usage(folders[-1]) for folders in self._groups)


def _remove(folder: Path) -> None:
    """Also while its processes end or start others."""
    for process in (folder / "cgroup.procs").read_text().split():
        with suppress(OSError):  # it has ended
            (folder.parent / "cgroup.procs").write_text(process)
    folder.rmdir()


def _usage(folder: Path) -> float:
    if not IS_UNIFIED:
        return int((folder / "cpuacct.usage").read_text()) / 1e9
    return int((folder / "cpu.stat").read_text().split()[1]) / 1e6


def _processes(program: str, word: str) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            words = (entry / "cmdline").read_text().split("\0") if entry.name.isdigit() else []
            if program in words and any(word in each for each in words) and words[0].endswith("java"):
                yield int(entry.name)
