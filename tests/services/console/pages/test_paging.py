"""Paging of topics and groups with many partitions, largest lag first."""

from __future__ import annotations

import asyncio

from barnabas.client.admin import create_topic
from barnabas.client.cluster import Client
from barnabas.client.groups import CommittedOffset, commit_offsets
from barnabas.client.producer import Producer
from barnabas.common.types import TopicPartition
from barnabas.testing import EmbeddedBroker
from tests.services.console.pages.administration import look_anew
from tests.services.console.web import RunningConsole, Web

PARTITIONS = 230


def test_partitions_of_a_topic_and_of_a_group_are_paged(
    console: RunningConsole, web: Web, console_broker: EmbeddedBroker
) -> None:
    async def fill() -> None:
        async with Client(console_broker.bootstrap_servers) as client:
            await create_topic(client, "wide", partitions=PARTITIONS, replication_factor=1, configs={})
            async with Producer(client) as producer:
                for _ in range(3):
                    await producer.send("wide", b"x", partition=170)
            offsets = {TopicPartition("wide", index): CommittedOffset(0) for index in range(PARTITIONS)}
            await commit_offsets(client, "reads-wide", offsets)

    asyncio.run(fill())
    for _ in range(2):
        look_anew(console)
    pages = [web.api("/topics/wide/partitions", page=number).json for number in (1, 2, 3, 9)]
    assert [len(page["rows"]) for page in pages] == [100, 100, 30, 30]
    assert [page["rows"][0]["partition"] for page in pages] == [0, 100, 200, 200]
    assert pages[1]["paging"] == {"page": 2, "pages": 3, "rows": PARTITIONS}
    assert "?page=2" in web.get("/topics/wide/partitions").text

    group = web.api("/groups/reads-wide").json
    assert [(row["partition"], row["lag"]) for row in group["partitions"][:2]] == [(170, 3), (0, 0)]
    assert (group["paging"]["pages"], group["members_paging"]["rows"]) == (3, 0)
    assert len(web.api("/groups/reads-wide", page=3).json["partitions"]) == 30
    assert "page=2" in web.get("/groups/reads-wide").text
