"""The template `logs`: multi-line entries, masking, levels, and dead letters."""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from barnabas.pipelines.library.logs.generator import TOPIC
from barnabas.testing import EmbeddedBroker
from tests.support.spark.workbench import Stored, Workbench, stored_in

pytestmark = pytest.mark.timeout(300)  # a busy machine

LEVELS = ("trace", "debug", "info", "warn", "error", "fatal")
LEVEL = r"(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)"
# Entry formats of the applications: time, level and message.
FORMS = {
    "shop/web-0": (rf"(\S+) {LEVEL} (.*)", r"\3"),
    "shop/web-1": (rf"(\S+ \S+) \[main\] {LEVEL}  (.*)", r"[main] \3"),
    "billing/worker-0": (rf"(\S+ \S+) - billing.pay - {LEVEL} - (.*)", r"- billing.pay - \3"),
    "unknown": (rf"\[(\S+)\] \[{LEVEL}\] (.*)", r"\3"),
}
SAME_LEVEL = {"WARNING": "WARN", "CRITICAL": "FATAL"}
CONTINUATIONS = ("Traceback", "TimeoutError", "com.shop.PaymentException", "Caused by", "}")
MASKS = (
    (rb"[\w.+-]+@[\w-]+\.[\w.]+", b"<email>"),
    (rb"\b\d{4} \d{4} \d{4} \d{4}\b", b"<card>"),
    (rb"\b\d+\.\d+\.\d+\.\d+\b", b"<address>"),
)
MAX_LINES, MAX_BYTES = 8, 200


class Letter(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None]


class Expected:
    """Reference result of the lines of a topic: complete `entries`, `open` ones, and dead letters."""

    def __init__(self, records: list[Stored]) -> None:
        self.entries: list[dict[str, Any]] = []
        self.open: list[dict[str, Any]] = []
        self.letters: list[Letter] = []
        files: dict[tuple[str, int], list[Stored]] = defaultdict(list)
        for record in records:
            files[source_of(record.key), record.partition].append(record)
        for (source, partition), lines in files.items():
            self._join(source, partition, lines)

    def _join(self, source: str, partition: int, lines: list[Stored]) -> None:
        entry: dict[str, Any] | None = None
        for line in lines:
            text = (line.value or b"").decode("utf-8", "replace")
            begins = re.fullmatch(FORMS.get(source, FORMS["unknown"])[0], text, re.DOTALL)
            if "25:61" in text or begins:
                self.entries += [entry] if entry else []
                entry = entry_of(source, partition, line, begins) if begins else None
            if line.value is None:
                self._set_aside(line, b"has no value")
            elif "25:61" in text:
                self._set_aside(line, b"has a time that cannot be")
            elif not begins and not (text == "" or text.startswith((" ", "\t", *CONTINUATIONS))):
                self._set_aside(line, b"neither begins nor continues an entry")
            elif entry is None:
                self._set_aside(line, b"continues an entry that is not there")
            elif not begins:
                entry["text"] += b"\n" + masked(text.encode())[0]
        self.open += [entry] if entry else []

    def _set_aside(self, line: Stored, reason: bytes) -> None:
        value, count = (None, 0) if line.value is None else masked(line.value)
        place = {"errors.partition": line.partition, "errors.offset": line.offset}
        headers = {
            **dict(line.headers),
            "errors.dataset": b"entries",
            "errors.reason": reason,
            "errors.topic": b"app.logs",
            **{name: str(number).encode() for name, number in place.items()},
            **({"errors.masked": str(count).encode()} if count else {}),
        }
        self.letters.append(Letter(line.key, value, headers))


def source_of(key: bytes | None) -> str:
    if key is None:
        return "unknown"
    try:
        shown = key.decode()
    except UnicodeDecodeError:
        shown = "0x" + key.hex().upper()
    if len(shown) <= 1000:
        return shown
    return f"{shown[:1000]}... sha256:{hashlib.sha256(key).hexdigest()[:16]}"


def masked(text: bytes) -> tuple[bytes, int]:
    count = 0
    for pattern, name in MASKS:
        text, found = re.subn(pattern, name, text)
        count += found
    return text, count


def entry_of(source: str, partition: int, line: Stored, begins: re.Match[str]) -> dict[str, Any]:
    message = begins.expand(FORMS.get(source, FORMS["unknown"])[1])
    return {
        "time": datetime.fromisoformat(begins[1].removesuffix("Z").removesuffix("+00:00")),
        "source": source,
        "level": SAME_LEVEL.get(begins[2], begins[2]),
        "text": masked(message.encode())[0],
        "partition": partition,
        "offset": line.offset,
    }


def as_written(entry: dict[str, Any]) -> dict[str, Any]:
    """With no more of its text than the settings allow, and the rest counted."""
    text = entry["text"]
    kept = b"\n".join(text.split(b"\n")[:MAX_LINES])[:MAX_BYTES].decode("utf-8", "ignore")
    return {
        **{name: fact for name, fact in entry.items() if name not in ("text", "time")},
        "time": entry["time"].strftime("%Y-%m-%dT%H:%M:%S.") + f"{entry['time'].microsecond // 1000:03d}Z",
        "message": kept,
        "lines": text.count(b"\n") + 1,
        "omitted_lines": text.count(b"\n") - kept.count("\n"),
        "omitted_bytes": len(text) - len(kept.encode()),
    }


def written(bench: Workbench) -> list[dict[str, Any]]:
    """All entries, each from the topic of its level and with the key of its file."""
    found = []
    for level in LEVELS:
        for record in bench.read(f"logs.{level}"):
            row = json.loads(record.value or b"")
            assert (row["level"].lower(), row["source"]) == (level, record.key)
            assert record.headers == {}
            found.append(row)
    return found


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def letters_in(bench: Workbench) -> list[Letter]:
    return [
        Letter(record.key, record.value, dict(record.headers))
        for record in stored_in(bench.servers, "app.logs.dead-letters")
    ]


def send_strange_lines(bench: Workbench) -> None:
    """Lines missing in generated files: one file in two partitions, arbitrary keys, headers, large lines."""
    begin = b"2026-01-01T00:00:00.000Z INFO "
    producer = Producer({"bootstrap.servers": bench.servers})
    for partition in (0, 1):
        for line in (b"  of partition 0 or 1", begin + b"%d" % partition, b"  and the rest"):
            producer.produce("app.logs", line, b"shop/web-0", partition)
    bracketed = b"[2026-01-01T00:00:00+00:00] [FATAL] "
    large = "\N{GREEK SMALL LETTER ALPHA}".encode() * 40_000
    for key in (b"\xff\x00", b"", "\N{GREEK SMALL LETTER ALPHA}".encode()):
        for value in (bracketed + large, b"\tat last", b"?\xff ann@example.com", None, bracketed + b"end"):
            producer.produce("app.logs", value, key, 1, headers=[("trace", b"\xff"), ("none", None)])
    # Keys that are nearly as large as a record may be; two of them differ at their very end.
    keys = (
        b"\x01" * 900_000,
        b"\xff" * 600_000,
        b"\x00" * 899_999 + b"a",
        b"\x00" * 899_999 + b"b",
        b"k" * 1000,
    )
    for key in keys:
        for value in (bracketed + key[-1:].hex().encode(), b"\tat first", bracketed + b"end"):
            producer.produce("app.logs", value, key, 0)
            producer.flush(60)
    producer.produce("app.logs", b"?", keys[0], 0)
    assert producer.flush(60) == 0


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    """With a separate broker, because result topics have fixed names; two hundred bytes are a long entry."""
    limits = {"logs.max.lines": str(MAX_LINES), "logs.max.bytes": str(MAX_BYTES)}
    with EmbeddedBroker() as broker:
        bench = Workbench(
            "logs", tmp_path / "clean", broker.bootstrap_servers, {**limits, "logs.idle": "0.1s"}
        )
        bench.create_inputs(TOPIC)
        yield bench


def test_lines_become_entries_as_plain_python_joins_them(spark: SparkSession, bench: Workbench) -> None:
    bench.send(bench.generate(1_500))
    send_strange_lines(bench)
    runner = bench.run(spark)
    expected = Expected(stored_in(bench.servers, "app.logs"))
    assert {letter.headers["errors.reason"] for letter in expected.letters} == {
        b"has no value",
        b"has a time that cannot be",
        b"neither begins nor continues an entry",
        b"continues an entry that is not there",
    }
    rows = in_order(written(bench))
    assert rows == in_order([as_written(entry) for entry in expected.entries])
    assert any(row["omitted_lines"] for row in rows)
    assert sorted(letters_in(bench), key=repr) == sorted(expected.letters, key=repr)
    assert runner.flows["by_level"].broken == {"entries: is a line of an entry": len(expected.letters)}


def test_the_last_entry_of_a_file_is_over_when_the_file_has_fallen_silent(
    spark: SparkSession, bench: Workbench
) -> None:
    """Lines of other files make Spark check timers, in runs that end at the end of input."""
    begin = b"2026-01-01T00:00:00.000Z INFO "
    rounds = [
        {b"silent": begin + b"a", b"slow": begin + b"b"},
        {b"other": begin + b"c", b"slow": b"  and b"},
        {b"other": begin + b"d"},
        {b"slow": b"  and b, too late"},
    ]
    over = []
    for lines in rounds:
        producer = Producer({"bootstrap.servers": bench.servers})
        for key, line in lines.items():
            producer.produce("app.logs", line, key, 0)
        assert producer.flush(60) == 0
        bench.run(spark)
        over.append({row["message"] for row in written(bench)})
    assert over == [set(), {"a"}, {"a", "b\n  and b", "c"}, {"a", "b\n  and b", "c", "d"}]
    (letter,) = letters_in(bench)
    assert (letter.key, letter.value) == (b"slow", b"  and b, too late")
