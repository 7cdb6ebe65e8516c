from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.services.ingest import statsd
from barnabas.services.ingest.statsd import Aggregation, Measured, StatsdSettings, StatsdSource, parse_line
from barnabas.testing import EmbeddedBroker
from tests.services.ingest.running import RunningAgent, read_records
from tests.support.programs import find
from tests.support.waiting import until


def reported(*lines: str, seconds: float = 10.0) -> list[dict[str, Any]]:
    found = Aggregation()
    for line in lines:
        measured = parse_line(line)
        assert measured is not None, line
        assert found.add(measured)
    return found.report(seconds)


def test_counters_with_rates_and_tags() -> None:
    assert reported("a:1|c", "a:2|c|@0.1", "a:1|c|#z:1,b", "a:1:2|c|#b,z:1") == [
        {"kind": "counter", "name": "a", "value": 21.0, "rate": 2.1},
        {"kind": "counter", "name": "a", "tags": {"b": "", "z": "1"}, "value": 4.0, "rate": 0.4},
    ]


def test_gauges_are_set_and_changed_and_reported_only_if_set() -> None:
    found = Aggregation()
    for line in ("g:5|g", "g:+2|g", "g:-3|g"):
        found.add(parse_line(line) or Measured("", "gauge", ()))
    assert found.report(1) == [{"kind": "gauge", "name": "g", "value": 4.0}]
    assert found.report(1) == []
    found.add(parse_line("g:+1|g") or Measured("", "gauge", ()))
    assert found.report(1) == [{"kind": "gauge", "name": "g", "value": 5.0}]


def test_timers_and_sets() -> None:
    (timer,) = reported(*(f"t:{number}|ms" for number in range(1, 101)))
    assert timer == {
        "kind": "timer", "name": "t", "count": 100.0, "rate": 10.0, "mean": 50.5, "min": 1.0, "max": 100.0,
        "p50": 51.0, "p95": 96.0, "p99": 100.0,
    }  # fmt: skip
    assert reported("s:a|s", "s:b|s", "s:a|s") == [{"kind": "set", "name": "s", "value": 2}]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "a",
        "a:",
        "a:1",
        "a:1|",
        "a:1|x",
        ":1|c",
        "a:x|c",
        "a:nan|g",
        "a:1|c|@0",
        "a:1|c|@x",
        "a:1_0|c",
        "a:1e300|c",
    ],
)
def test_invalid_measurements(line: str) -> None:
    assert parse_line(line) is None


@given(st.lists(st.text(alphabet="ab:|cgmsh@#.,+-01e9", max_size=20) | st.text(max_size=20), max_size=20))
def test_any_lines_can_be_added_up(lines: list[str]) -> None:
    found = Aggregation()
    for line in lines:
        measured = parse_line(line)
        if measured is not None:
            found.add(measured)
    json.dumps(found.report(1.0), allow_nan=False)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statsd, "MAX_SERIES", 10)
    found = Aggregation()
    assert [found.add(Measured(f"n{number}", "counter", ("1",))) for number in range(12)] == [True] * 10 + [
        False
    ] * 2
    for number in range(5000):
        found.add(Measured("t", "timer", (str(number),)))
        found.add(Measured("s", "set", (str(number),)))
    (timer,) = found._timers.values()
    assert (len(timer.samples), timer.count) == (1000, 5000)


def test_metrics_sent_by_programs_are_reported(embedded: EmbeddedBroker) -> None:
    (bash,) = find("bash")
    settings = StatsdSettings(topic=f"metrics-{uuid4().hex}", host="box", listen="127.0.0.1:0", every=0.5)
    source = StatsdSource("statsd", settings)
    with RunningAgent(embedded.bootstrap_servers, [source]):
        udp, tcp = (each.address.port for each in source.endpoints)
        command = (
            f"echo 'orders:1|c|#shop:berlin' > /dev/udp/127.0.0.1/{udp}; "
            f"printf '1st:7|g\\nnonsense' > /dev/tcp/127.0.0.1/{tcp}"
        )
        subprocess.run([bash, "-c", command], check=True, timeout=60)
        until(lambda: source.counts.received == 3, "all of it")
        with socket.create_connection(("127.0.0.1", tcp)) as connection:
            connection.sendall(b"a:1|c\nb:" + b"1" * 100_000 + b"|c\nc:1|c\n")
        found = read_records(embedded.bootstrap_servers, settings.topic, 4)
    reports = {each.key: json.loads(each.value) for each in found}
    assert reports[b"orders"]["tags"] == {"shop": "berlin"}
    assert (reports[b"1st"]["value"], reports[b"1st"]["host"]) == (7.0, "box")
    assert {b"a", b"c"} < set(reports)
    assert (source.counts.unparsed, source.counts.truncated) == (1, 1)


def test_listener_reachable_from_other_machines_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """As that of syslog: both are opened in the same way."""

    async def opened(listen: str) -> str:
        caplog.clear()
        source = StatsdSource("s", StatsdSettings(topic="metrics", host="h", listen=listen))
        await source.open(lambda: None)
        source.close()
        return caplog.text

    assert "is reachable from other machines" in asyncio.run(opened("udp://0.0.0.0:0"))
    assert "is reachable from other machines" not in asyncio.run(opened("udp://127.0.0.1:0"))
