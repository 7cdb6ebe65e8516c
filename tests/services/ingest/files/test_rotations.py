"""Random rotations in logrotate's steps; between two steps the agent polls or dies."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.ingest.files.test_source import READERS, Reader

KEPT = 40


class Rotated:
    """A log that is written and rotated; every `next` of a rotation is one system call's worth."""

    def __init__(self, log: Path, rng: random.Random) -> None:
        self._log = log
        self._chance = rng
        self.written: list[str] = []

    def write(self) -> None:
        count = self._chance.choice([1, 3, 100, 400])
        first = len(self.written)
        lines = [f"line {number:06}" for number in range(first, first + count)]
        self.written += lines
        with self._log.open("a") as file:
            file.writelines(line + "\n" for line in lines)

    def rotate(self, *, copied: bool, compressed: bool) -> Iterator[None]:
        for number in range(KEPT, 0, -1):
            for ending in ("", ".gz"):
                path = self._name(number, ending)
                if path.exists():
                    path.rename(self._name(number + 1, ending))
                    yield
        first = self._name(1)
        if copied:
            yield from self._copy(self._log.read_bytes(), first)
            os.truncate(self._log, 0)
        else:
            self._log.rename(first)
            yield
            self._log.touch()
        yield
        if compressed:
            yield from self._copy(gzip.compress(first.read_bytes()), self._name(1, ".gz"))
            first.unlink()
            yield

    def _copy(self, data: bytes, path: Path) -> Iterator[None]:
        with path.open("wb") as file:
            middle = self._chance.randrange(len(data) + 1)
            file.write(data[:middle])
            file.flush()
            yield
            file.write(data[middle:])
        yield

    def _name(self, number: int, ending: str = "") -> Path:
        return self._log.with_name(f"{self._log.name}.{number}{ending}")


@pytest.mark.parametrize("seed", range(60))
def test_random_rotations_lose_and_double_nothing(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    log = tmp_path / "app.log"
    rotated = Rotated(log, rng)
    reader = Reader(tmp_path / "app.log*")

    def anything() -> None:
        action = rng.random()
        if action < 0.4:
            reader.read()
        elif action < 0.5:
            reader.read(committed=rng.random() < 0.5)
            reader.restart()

    for _ in range(12):
        rotated.write()
        anything()
        if rng.random() < 0.7:
            for _ in rotated.rotate(copied=rng.random() < 0.5, compressed=rng.random() < 0.5):
                anything()
    for _ in range(4):
        reader.read()
    assert sorted(reader.lines) == rotated.written
    assert READERS
