"""Findings of a run, and their report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.fuzz.judging import Failure


@dataclass
class Findings:
    """Findings of a run, and its throughput."""

    frames: int = 0
    answers: int = 0
    unanswered: int = 0
    closed: int = 0
    began: float = field(default_factory=time.monotonic)
    slowest: dict[str, float] = field(default_factory=dict)
    largest_peak: int = 0
    largest_files: tuple[int, int] = (0, 0)
    largest_rss: int = 0
    by_variant: Counter[str] = field(default_factory=Counter)
    noise: Counter[str] = field(default_factory=Counter)
    failures: dict[tuple[str, str], Failure] = field(default_factory=dict)
    times: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        return self.frames / max(time.monotonic() - self.began, 1e-9)

    def add(self, failure: Failure) -> bool:
        """Is it new?"""
        self.times[failure.key] += 1
        return self.failures.setdefault(failure.key, failure) is failure


def summary(findings: Findings) -> Iterator[str]:
    yield (
        f"{findings.frames:,} frames in {time.monotonic() - findings.began:,.0f} s ({findings.rate:,.0f}/s): "
        f"{findings.answers:,} answered, {findings.unanswered:,} not, {findings.closed:,} connections closed"
    )
    yield "frames: " + ", ".join(f"{name} {count:,}" for name, count in findings.by_variant.items())
    slowest = sorted(findings.slowest.items(), key=lambda each: -each[1])[:10]
    yield "slowest: " + ", ".join(f"{name} {seconds * 1000:.1f} ms" for name, seconds in slowest)
    count, size = findings.largest_files
    yield (
        f"largest: {findings.largest_peak >> 20} MB above the rest within a turn, "
        f"{findings.largest_rss >> 20} MB at the end of a broker's life, {count:,} files, {size >> 20:,} MB on the disk"
    )
    if findings.noise:
        yield "seen once and not again: " + ", ".join(
            f"{kind} {times}" for kind, times in findings.noise.items()
        )
    for key, failure in findings.failures.items():
        yield f"FAILURE ({findings.times[key]} times): {failure}"
    yield f"{len(findings.failures)} failures" if findings.failures else "no failures"
