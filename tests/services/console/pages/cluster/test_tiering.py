"""Tiered topics on the console, compared with `barnabas tier status`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.tiering.conftest import RECORDS, Tiered, tiered
from tests.services.console.pages.administration import look_anew
from tests.services.console.web import RunningConsole, Web, running_console
from tests.support.cli import Cli

__all__ = ["tiered"]


@pytest.fixture
def console(tiered: Tiered, tmp_path: Path) -> Iterator[RunningConsole]:
    with running_console(tiered.broker.bootstrap_servers, tmp_path) as console:
        yield console


def test_copied_bytes_equal_tier_status(web: Web, console: RunningConsole, tiered: Tiered) -> None:
    topic = tiered.topic(partitions=2)
    tiered.broker.create_topic("not-tiered")
    facts = Cli(tiered.broker.bootstrap_servers).ok("tier", "status", topic, "-o", "json").json
    look_anew(console)
    page = web.api("/tiering").json
    (row,) = page["topics"]
    totals = facts["totals"]
    assert (row["topic"], row["partitions"], row["failing"], row["error"]) == (topic, 2, 0, "")
    assert (row["remote_bytes"], row["pending_records"]) == (
        totals["remote_bytes"],
        totals["pending_records"],
    )
    assert [broker["store_down"] for broker in page["brokers"]] == [False]
    assert page["note"] == ""
    parts = web.api("/tiering", topic=topic).json["partitions"]
    ours = [(part["tiered_end"], part["local_start"], part["end"]) for part in parts]
    assert ours == [(part["tiered_end"], part["local_start"], RECORDS) for part in facts["partitions"]]
    rows = web.api(f"/topics/{topic}/partitions").json["rows"]
    assert [each["tiered"] for each in rows] == [part["tiered_end"] for part in facts["partitions"]]
    for path in ("/tiering", f"/tiering?topic={topic}", f"/topics/{topic}/partitions"):
        assert "tiered up to" in web.get(path).text or path == "/tiering"
    assert web.api("/tiering", topic="not-tiered").json["topics"] == []
