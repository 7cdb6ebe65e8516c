"""One record is read without a search process, and is the same that a search process reads."""

from __future__ import annotations

import msgspec
from confluent_kafka import Producer

from barnabas.client.cluster import Client
from barnabas.client.opening import ConsumedRecord
from barnabas.services.console.scanning.model import WHOLE_BYTES, Decode, Hit, RecordMask, ScanBudget, Search
from barnabas.services.console.scanning.process import Pool
from barnabas.services.console.scanning.scanner import Scanner, read_single
from barnabas.testing import EmbeddedBroker
from tests.services.console.scanning.conftest import Searcher

NO_PROCESS = ("/bin/false",)
STEP = 18


def search_for(record: ConsumedRecord) -> Search:
    return Search(
        topic=record.topic,
        partitions=(record.partition,),
        first_offset=record.offset,
        until_offset=record.offset + 1,
        limit=1,
        newest_first=False,
        shown_bytes=WHOLE_BYTES,
        with_hex=True,
    )


def test_it_is_the_same_record(
    searcher: Searcher, broker: EmbeddedBroker, records: list[ConsumedRecord]
) -> None:
    async def compare(client: Client) -> int:
        await searcher.pool.start()
        patient = ScanBudget(seconds=600)  # processes have a low priority, and start slowly on a busy machine
        scanner, direct = Scanner(searcher.pool, budget=patient), 0
        for record in records[::STEP]:
            found = await read_single(client, search_for(record), has_registry=False)
            if found is not None:
                direct += 1
                assert found == await scanner.record(client, search_for(record))
        return direct

    direct: int = searcher.with_client(broker.bootstrap_servers, compare)
    assert direct > 0  # transactions are left to search processes


def test_no_process_is_waited_for(searcher: Searcher, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("single", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, b"{}", b"key", headers=[("a", b"1"), ("b", None)])
    assert producer.flush(30) == 0

    async def cold(client: Client) -> Hit | None:
        pool = Pool(1, NO_PROCESS)
        try:
            record = ConsumedRecord(topic, 0, 0, 0, None, None, ())
            return await Scanner(pool).record(client, search_for(record))
        finally:
            await pool.close()

    found: Hit | None = searcher.with_client(broker.bootstrap_servers, cold)
    assert found is not None
    assert (found.key.text, found.value.format, [name for name, _ in found.headers]) == (
        "key",
        "json",
        ["a", "b"],
    )


def test_masks_and_schemas_are_for_search_processes(
    searcher: Searcher, broker: EmbeddedBroker, records: list[ConsumedRecord]
) -> None:
    async def ask(client: Client) -> list[Hit | None]:
        search = search_for(records[0])
        masked = msgspec.structs.replace(search, masks=(RecordMask(key=True),))
        decoded = msgspec.structs.replace(search, decode=Decode.REGISTRY)
        return [await read_single(client, each, has_registry=True) for each in (masked, decoded)]

    found: list[Hit | None] = searcher.with_client(broker.bootstrap_servers, ask)
    assert found == [None, None]
