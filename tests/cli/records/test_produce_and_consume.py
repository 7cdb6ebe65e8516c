import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli import Cli


def test_lines_become_records_and_records_become_lines(cli: Cli, topic: str) -> None:
    sent = cli.ok("produce", topic, "-p", "0", stdin="one\r\ntwo\n\nlast without an end")
    assert sent.err == f"4 records (25 B) sent to {topic}.\n"
    assert cli.ok("consume", topic, "--from", "beginning", "-e").out == "one\ntwo\n\nlast without an end\n"


def test_keys_headers_and_nulls_come_back_as_json(cli: Cli, topic: str) -> None:
    arguments = ("-K", ":", "--null", "NULL", "-H", "source=shop", "-H", "empty", "-p", "1")
    cli.ok("produce", topic, *arguments, stdin="a:1:2\nb:NULL\nno key\n")
    lines = cli.ok("consume", topic, "--from", "beginning", "-e", "-o", "json").out.splitlines()
    records = [json.loads(line) for line in lines]
    assert [(record["key"], record["value"]) for record in records] == [
        ("a", "1:2"),
        ("b", None),
        (None, "no key"),
    ]
    assert records[0]["headers"] == [{"name": "source", "value": "shop"}, {"name": "empty", "value": None}]
    assert [record["offset"] for record in records] == [0, 1, 2]


def test_bytes_that_are_no_text_are_base64_in_json(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, stdin=b"\xff\xfe\n")
    (line,) = cli.ok("consume", topic, "--from", "beginning", "-e", "-o", "json").out.splitlines()
    assert json.loads(line)["value_base64"] == "//4="


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_compression_and_acknowledgement_works(
    cli: Cli, topic: str, compression: str, acks: str
) -> None:
    lines = "".join(f"{number}\n" for number in range(500))
    cli.ok("produce", topic, "-p", "0", "-z", compression, "--acks", acks, stdin=lines)
    read = cli.ok("consume", topic, "--from", "beginning", "--count", "500")
    assert read.out == lines


def test_files_are_sent_line_by_line_or_whole(cli: Cli, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("a\nb\n")
    assert cli.ok("produce", topic, "-f", str(path), "-o", "json").json["records"] == 2
    assert cli.ok("produce", topic, "-f", str(path), "--whole-files", "-o", "json").json["records"] == 1
    missing = cli("produce", topic, "-f", str(tmp_path / "missing"))
    assert missing.code == 1
    assert "missing: No such file or directory" in missing.err


@pytest.mark.parametrize(
    ("start", "expected"),
    [("beginning", "abc"), ("end", ""), ("1", "bc"), ("-1", "c"), ("2020-01-01", "abc")],
)
def test_reading_starts_at_the_requested_position(cli: Cli, topic: str, start: str, expected: str) -> None:
    cli.ok("produce", topic, "-v", "a", "-v", "b", "-v", "c", "-p", "0")
    assert cli.ok("consume", topic, "-p", "0", "--from", start, "-e", "-f", "%v").out == expected


def test_a_format_writes_every_part_of_a_record(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "-k", "key", "-v", "value", "-H", "a=1", "-p", "1")
    arguments = ("consume", topic, "-s", "beginning", "-e", "-f")
    written = cli.ok(*arguments, r"%t|%p|%o|%k|%K|%v|%V|%h|%%\t\x21\n").out
    assert written == f"{topic}|1|0|key|3|value|5|a=1|%\t!\n"


def test_only_the_chosen_partitions_are_read(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "-v", "zero", "-p", "0")
    cli.ok("produce", topic, "-v", "one", "-p", "1")
    assert cli.ok("consume", topic, "-p", "1", "-s", "beginning", "-e").out == "one\n"


def test_several_topics_are_read_together(cli: Cli, topic: str, new_name: Callable[[], str]) -> None:
    other = new_name()
    cli.ok("produce", topic, "-v", "here")
    cli.ok("produce", other, "-v", "there")  # the broker makes it
    read = cli.ok("consume", topic, other, "-s", "beginning", "-e").out
    assert sorted(read.splitlines()) == ["here", "there"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--from", "yesterday"), "not a valid start position"),
        (("--format", "%q"), "%q is not a valid directive"),
    ],
)
def test_wrong_use_is_explained_and_ends_with_2(
    cli: Cli, topic: str, arguments: tuple[str, ...], reason: str
) -> None:
    failed = cli("consume", topic, *arguments)
    assert failed.code == 2
    assert reason in failed.err


def test_a_partition_that_does_not_exist_is_named(cli: Cli, topic: str) -> None:
    failed = cli("consume", topic, "-p", "7")
    assert failed.code == 1
    assert "there is no 7" in failed.err


def test_an_offset_outside_the_log_is_an_error(cli: Cli, topic: str) -> None:
    failed = cli("consume", topic, "-p", "0", "--from", "99", "--count", "1")
    assert failed.code == 1
    assert "OFFSET_OUT_OF_RANGE" in failed.err
