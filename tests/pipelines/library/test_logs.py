"""The template `logs`: entries of several lines, masked, by level; what is no entry goes to the dead letters."""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.library.logs.generator import SOURCES, TOPIC
from barnabas.pipelines.library.records import Generated
from barnabas.testing import EmbeddedBroker
from tests.pipelines.library.workbench import START, Workbench

pytestmark = pytest.mark.timeout(300)  # many flows, one after another, on a busy machine

LEVELS = ("error", "warn", "info", "debug")
MASKS = (
    (r"[\w.+-]+@[\w-]+\.[\w.]+", "<email>"),
    (r"\b\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{4}\b", "<card>"),
    (r"\b\d{1,3}(\.\d{1,3}){3}\b", "<address>"),
)


def masked(text: str) -> str:
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text)
    return text


def entries_of(lines: list[Generated]) -> tuple[Counter[tuple[str, str, str]], int]:
    """(source, level, message) of each entry but the last one of a file, and how many were none."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        text = (line.value or b"").decode()
        entries = by_file[str(line.key)]
        if re.match(r"\d{4}-|%", text) or not entries:
            entries.append(text)
        else:
            entries[-1] += "\n" + text
    good: Counter[tuple[str, str, str]] = Counter()
    bad = 0
    for source, entries in by_file.items():
        for entry in entries[:-1]:
            parts = entry.split(" ", 2)
            if entry.startswith("%"):
                bad += 1
            else:
                good[source, parts[1], masked(parts[2])] += 1
    return good, bad


def test_lines_become_entries_as_plain_python_joins_them(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    bench = Workbench("logs", tmp_path / "clean", broker.bootstrap_servers)
    bench.create_inputs(TOPIC)
    lines = bench.generate(600)
    # One more entry of each file ends the one before it; itself it stays open.
    lines += [Generated(TOPIC, source, b"2026-01-01T00:00:00.000Z INFO end", START) for source in SOURCES]
    bench.send(lines)
    bench.run(spark)
    good, bad = entries_of(lines)
    found = Counter()
    for level in LEVELS:
        for record in bench.read(f"logs.{level}"):
            row = json.loads(record.value or b"")
            assert row["level"].lower() == level
            found[row["source"], row["level"], row["message"]] += 1
    assert found == good
    letters = bench.read("app.logs.dead-letters")
    assert len(letters) == bad
    assert {letter.headers["errors.reason"] for letter in letters} == {"begins with a time and a level"}
