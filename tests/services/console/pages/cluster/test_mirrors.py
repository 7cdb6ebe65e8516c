"""Mirrored topics: displayed with their lag, paused, resumed, promoted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.services.mirror.settings import MirrorSettings
from barnabas.testing import EmbeddedBroker
from tests.services.console.pages.administration import new_name, write
from tests.services.console.web import Web, running_console
from tests.support.mirrors.process import MirrorThread
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[EmbeddedBroker, EmbeddedBroker]]:
    with EmbeddedBroker() as source, EmbeddedBroker() as target:
        yield source, target


def row(web: Web, topic: str) -> Any:
    return next(
        (row for row in web.api("/mirrors").json["topics"] if row["topic"] == topic),
        {"state": "", "lag": None},
    )


def test_a_mirrored_topic_is_paused_resumed_and_failed_over(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker], tmp_path: Path
) -> None:
    source, target = brokers
    topic = source.create_topic(new_name("mirrored"), partitions=1)
    write(source.bootstrap_servers, topic, 10)
    settings = MirrorSettings(topics=topic, refresh=0.3)
    with (
        running_console(target.bootstrap_servers, tmp_path) as console,
        console.web() as web,
        MirrorThread(source.bootstrap_servers, target.bootstrap_servers, settings),
    ):
        found = eventually(lambda: row(web, topic), lambda row: row["state"] == "ACTIVE" and row["lag"] == 0)
        assert (found["state"], found["lag"], found["identical"]) == ("ACTIVE", 0, True)
        assert found["source_topic"] == topic
        assert topic in web.get("/mirrors").text

        assert web.change(f"/mirrors/{topic}/pause").status == 200
        assert eventually(lambda: row(web, topic)["state"], lambda state: state == "PAUSED") == "PAUSED"
        assert web.post(f"/mirrors/{topic}/resume").status == 303
        assert eventually(lambda: row(web, topic)["state"], lambda state: state == "ACTIVE") == "ACTIVE"
        assert (
            web.change(f"/mirrors/{topic}/restart").json["message"] == f"Mirroring of {topic} is restarted."
        )
        assert eventually(lambda: row(web, topic)["state"], lambda state: state == "ACTIVE") == "ACTIVE"
        # No report since the request, so it may be outdated.
        refused = web.change(f"/mirrors/{topic}/promote", confirm=topic, within=0)
        assert (refused.status, "nothing was promoted" in refused.json["error"]) == (502, True)
        assert web.change(f"/mirrors/{topic}/failover", confirm="other").status == 400
        done = web.change(f"/mirrors/{topic}/failover", confirm=topic)
        assert done.status == 200, done.text
        assert eventually(lambda: row(web, topic)["state"], lambda state: state == "STOPPED") == "STOPPED"
    write(target.bootstrap_servers, topic, 1)
