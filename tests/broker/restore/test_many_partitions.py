"""A restore sends few requests per partition, many of them concurrently."""

import asyncio
from collections import Counter
from pathlib import Path

from barnabas.broker.restore.plan import make_plan
from barnabas.broker.restore.steps import restore_cluster
from barnabas.broker.restore.targets import FolderTarget
from barnabas.testing import EmbeddedBroker
from barnabas.testing.objects import MemoryObjectStore
from barnabas.tiering.stores.opening import FolderStore
from tests.broker.restore.many_partitions import CLUSTER, RECORDS, SEGMENTS, fill
from tests.support.tiering.lost_cluster import Store, read
from tests.support.waiting import until

PARTITIONS = 100


def test_two_gets_a_list_and_a_conditional_put_for_each_partition(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = MemoryObjectStore()
        await fill(store, PARTITIONS)
        store.requests = Counter()
        store.latency = 0.01
        plan = await make_plan(store, CLUSTER)
        done = await restore_cluster(store, plan, FolderTarget(tmp_path / "new", 1))
        assert len(done.image.topics["many"].partitions) == PARTITIONS
        request_count = store.requests
        gets = request_count["get"] + request_count["get_range"]
        a_few = 20  # for the complete cluster
        assert gets <= 2 * PARTITIONS + a_few
        assert request_count["list"] <= PARTITIONS + a_few
        assert request_count["replace"] + request_count["create"] <= PARTITIONS + a_few

    asyncio.run(scenario())


def test_a_broker_begins_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()

    async def scenario() -> None:
        store = FolderStore(str(tmp_path / "bucket"))
        await fill(store, PARTITIONS)
        plan = await make_plan(store, CLUSTER)
        await restore_cluster(store, plan, FolderTarget(tmp_path / "new", 1))
        await store.close()

    asyncio.run(scenario())
    settings = Store(f"file://{tmp_path}/bucket").settings
    with EmbeddedBroker(settings, data_dir=tmp_path / "new") as broker:
        led = broker.broker.replicas.by_name["many"]
        until(lambda: all(each.is_leader for each in list(led.values())), "all partitions are led")
        assert {each.log.log_end_offset for each in led.values()} == {SEGMENTS * RECORDS}
        assert [offset for offset, _ in read(broker, "many", 7)] == list(range(SEGMENTS * RECORDS))
