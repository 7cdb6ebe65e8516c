from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.types import TopicPartition
from barnabas.services.console.logs.columns import LEVELS, line_at
from barnabas.services.console.logs.lines import rows_of
from tests.services.console.logs.making import NOW_MS, TP, columns_of

NAMES = ("host", "path", "peer", "parsed", "severity", "service")
TRICKY = (
    b'{"message": "x", "severity": "loud", "time": "0000-00-00T00:00:00Z"}',
    b'{"source": ":/", "level": "", "message": "\xff"}',
    b'{"source": "a", "level": "ERROR", "message": "m", "time": "9999-12-31T23:59:60+99:99"}',
    b"9999-12-31 23:59:59,999 -9959 ERROR",
    b"\xff" * 300 + b" INFO",
)


def one(value: bytes, topic: str = "app.logs", **settings: Any) -> Any:
    return line_at(rows_of(TopicPartition(topic, 2), columns_of([value], **settings)), 0, 0)


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_line_of_a_file_has_host_file_and_parsed_prefix() -> None:
    line = one(b"2026-10-01T12:00:00.25Z ERROR payment 7 failed")

    assert (line.host, line.service, line.source) == ("web-1", "shop.log", "/var/log/shop.log")
    assert (line.level, line.time) == ("error", ms("2026-10-01T12:00:00.250"))
    assert (line.topic, line.partition, line.offset) == ("app.logs", 2, 0)
    assert line.message == "2026-10-01T12:00:00.25Z ERROR payment 7 failed"


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("[2026-10-01 12:00:00,123] x", "2026-10-01T12:00:00.123"),
        ("2026-10-01T12:00:00.123456+02:00 x", "2026-10-01T10:00:00.123"),
        ("2026-10-01T12:00:00 -0330 x", "2026-10-01T15:30:00.000"),
        ('{"level":"info","ts":"2026-10-01T12:00:00Z"}', "2026-10-01T12:00:00.000"),
        ("2028-02-29 00:00:00 but records are older", None),
        ("2026-02-30T10:00:00Z no such day", None),
        ("2026-10-01T25:00:00Z no such hour", None),
        ("nothing at all", None),
    ],
)
def test_the_time_is_the_lines_own_or_that_of_its_record(text: str, time: str | None) -> None:
    assert one(text.encode()).time == (NOW_MS if time is None else ms(time))


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("12:00 INFO no ERROR here", "info"),
        ("[warn] disk", "warn"),
        ('{"level": "Critical", "msg": "x"}', "fatal"),
        ("level=debug x", "debug"),
        ("TRACE: in", "trace"),
        ("an error in small letters is a word", "none"),
        ("ERRORS are not a level", "none"),
        ("severity=notice x", "info"),
    ],
)
def test_levels_are_found_as_programs_write_them(text: str, level: str) -> None:
    assert one(text.encode()).level == level


@pytest.mark.parametrize(
    ("text", "level", "service"),
    [
        ('{"msg": "no ERROR here", "level": "info", "service": "shop"}', "info", "shop"),
        ('{"message": "%s", "log.level": "warn", "service.name": "shop"}' % ("x" * 400), "warn", "shop"),
        ('{"log": {"level": "Error"}, "service": {"name": "shop"}}', "error", "shop"),
        ('{"level": 50, "time": 1795000000000, "msg": "pino"}', "error", "shop.log"),
        ('{"levelname": "CRITICAL", "app": "shop"}', "fatal", "shop"),
        ('{"SeverityText": "DEBUG", "application": "shop"}', "debug", "shop"),
        ('{"level": {"deep": [1]}, "service": 7} WARN', "warn", "shop.log"),
        ('{"level": true, "severity": null, "service": ""}', "none", "shop.log"),
    ],
)
def test_level_and_service_of_a_json_line_are_its_fields(text: str, level: str, service: str) -> None:
    line = one(text.encode())
    assert (line.level, line.service) == (level, service)


def test_headers_name_the_service_before_the_line_does() -> None:
    headers = (("service", b"of the header"), ("severity", b"ERROR"))
    line = one(b'{"level": "info", "service": "of the line"}', headers=headers)
    assert (line.level, line.service) == ("error", "of the header")


def test_a_line_without_a_time_was_written_with_the_line_above_it() -> None:
    rows = rows_of(TP, columns_of([b"2026-10-01T12:00:00Z ERROR x", b"  at a.b", b"", b"  at c.d"]))

    assert set(pa.array(rows.column("time")).cast(pa.int64()).to_pylist()) == {ms("2026-10-01T12:00:00")}


def test_a_message_of_syslog_is_taken_apart() -> None:
    message = {
        "time": "2026-10-01T12:00:00.003+02:00",
        "host": "router",
        "facility": "auth",
        "severity": "crit",
        "app": "sshd",
        "procid": "17",
        "data": {"origin": {"ip": "10.0.0.1"}},
        "message": "no more",
    }
    line = one(json.dumps(message).encode(), headers=[("peer", b"10.0.0.9")], key=b"router")

    assert (line.host, line.service, line.level) == ("router", "sshd", "fatal")
    assert line.time == ms("2026-10-01T10:00:00.003")
    assert line.message == 'no more {"origin":{"ip": "10.0.0.1"}}'


def test_raw_syslog_has_the_values_of_its_headers() -> None:
    headers = [("peer", b"::1"), ("host", b"router"), ("parsed", b"true"), ("severity", b"warning")]
    line = one(b"<12>1 - router sshd - - - hello", headers=headers, key=b"router")

    assert (line.host, line.level, line.message) == ("router", "warn", "<12>1 - router sshd - - - hello")


def test_an_entry_of_the_logs_pipeline_is_taken_apart() -> None:
    entry = {
        "time": "2026-10-01T12:00:00.000Z",
        "source": "web-1:/var/log/shop.log",
        "level": "FATAL",
        "message": "out of memory\n  at a.b",
        "lines": 2,
        "omitted_lines": 0,
        "omitted_bytes": 0,
        "partition": 1,
        "offset": 77,
    }
    line = one(json.dumps(entry).encode(), topic="logs.fatal", headers=[], key=b"web-1:/var/log/shop.log")

    assert (line.host, line.service, line.level) == ("web-1", "shop.log", "fatal")
    assert line.message == "out of memory\n  at a.b"


@pytest.mark.parametrize(
    "value", [b'{"message": 1}', b"{", b'{"message": "x", "order": 17}', b"[1]", b"\xff\x00"]
)
@pytest.mark.parametrize("topic", ["logs.info", "app.logs"])
def test_foreign_content_is_kept_unchanged(value: bytes, topic: str) -> None:
    assert one(value, topic=topic, headers=[("peer", b"x")]).message == value.decode(errors="replace")


def test_tombstones_are_no_lines_and_names_that_are_no_text_are_shown_anyhow() -> None:
    rows = rows_of(TP, columns_of([None, b"x", None], [("host", b"\xff"), ("host", b"second")], key=b"\xfe"))

    assert rows.num_rows == 1
    assert rows.column("offset").to_pylist() == [1]
    assert line_at(rows, 0, 0).host == "�"
    assert rows.column("level").dictionary.to_pylist() == list(LEVELS)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.none() | st.binary(max_size=40) | st.sampled_from(TRICKY), max_size=8),
    st.lists(
        st.tuples(st.sampled_from(NAMES) | st.text(max_size=3), st.none() | st.binary(max_size=10)),
        max_size=4,
    ),
    st.none() | st.binary(max_size=10),
    st.sampled_from(["app.logs", "logs.error"]),
    st.sampled_from([-1, 0, NOW_MS, 2**62 // 1000]),
)
def test_any_record_becomes_lines(
    values: list[bytes | None], headers: list[Any], key: bytes | None, topic: str, time: int
) -> None:
    columns = columns_of(values, headers, key=key, time=time)  # type: ignore[arg-type]
    rows = rows_of(TopicPartition(topic, 0), columns)
    assert rows.num_rows == sum(value is not None for value in values)
    for index in range(rows.num_rows):
        assert line_at(rows, index, 0).level in LEVELS
