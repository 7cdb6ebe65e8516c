"""Processes of a pool: killed ones, cancelled searches, slow readers, many searches at once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer

from barnabas.client.cluster import Client
from barnabas.client.security.parsing import parse_security
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.services.console.scanning.messages import CREDITS
from barnabas.services.console.scanning.model import Hits, Search, Skipped
from barnabas.services.console.scanning.process import Pool, ProcessDiedError
from barnabas.services.console.scanning.scanner import Scanner
from barnabas.testing import EmbeddedBroker
from tests.services.console.scanning.conftest import Searcher, gather
from tests.support.waiting import until

DEADLINE = 60.0


def test_search_with_a_killed_process_fails_with_a_message_and_the_pool_continues(
    searcher: Searcher, broker: EmbeddedBroker, orders: str
) -> None:
    search = Search(topic=orders, find="DE")

    async def work(client: Client) -> tuple[str, int]:
        pool = searcher.pool
        scanner = Scanner(pool)
        await gather(scanner.search(client, search))
        killed = pool.processes[0].pid
        assert killed is not None
        os.kill(killed, signal.SIGSTOP)  # in the middle of a search, for certain
        running = asyncio.ensure_future(gather(scanner.search(client, search)))
        while not pool.processes[0].busy:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0)
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(ProcessDiedError) as error:
            await asyncio.wait_for(running, DEADLINE)
        hits, _ = await gather(scanner.search(client, msgspec.structs.replace(search, limit=1000)))
        return error.value.message, len(hits)

    message, found = searcher.with_client(broker.bootstrap_servers, work)
    assert "was killed (signal 9)" in message
    assert found > 50


def test_abandoned_search_frees_its_processes(
    searcher: Searcher, broker: EmbeddedBroker, orders: str
) -> None:
    async def work(client: Client) -> int:
        scanner = Scanner(searcher.pool)
        for _ in range(3 * CREDITS):
            events = scanner.search(client, Search(topic=orders, limit=10_000))
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Hits):
                        break
            assert not any(process.busy for process in searcher.pool.processes)
        hits, _ = await asyncio.wait_for(gather(scanner.search(client, Search(topic=orders))), DEADLINE)
        return len(hits)

    assert searcher.with_client(broker.bootstrap_servers, work) == 100


def test_a_slow_reader_of_an_export_holds_up_no_search(
    searcher: Searcher, broker: EmbeddedBroker, orders: str
) -> None:
    topic = broker.create_topic("long", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(20 * CREDITS):
        producer.produce(topic, os.urandom(200_000), partition=0)
        producer.poll(0)
    assert producer.flush(DEADLINE) == 0

    async def work(client: Client) -> int:
        scanner = Scanner(searcher.pool)
        export = Search(topic=topic, newest_first=False, limit=100_000)
        async with AsyncExitStack() as stack:
            for _ in searcher.pool.processes:  # one in each
                chunks = scanner.export(client, export, "parquet")
                await stack.enter_async_context(aclosing(chunks))
                assert await anext(chunks)
            found = gather(scanner.search(client, Search(topic=orders)))
            hits, _ = await asyncio.wait_for(found, DEADLINE)
            return len(hits)

    assert searcher.with_client(broker.bootstrap_servers, work) == 100


def test_many_searches_run_side_by_side(searcher: Searcher, broker: EmbeddedBroker, orders: str) -> None:
    async def work(client: Client) -> list[int]:
        scanner = Scanner(searcher.pool)
        searches = [Search(topic=orders, find=word, limit=1000) for word in ("DE", "AT", "FR", "nowhere") * 4]
        found = await asyncio.gather(*(gather(scanner.search(client, search)) for search in searches))
        return [len(hits) for hits, _ in found]

    counts = searcher.with_client(broker.bootstrap_servers, work)
    assert counts == counts[:4] * 4
    assert counts[3] == 0


def test_tail_shows_new_lines_and_counts_skipped_ones(searcher: Searcher, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("tailed", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def produce(count: int) -> None:
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=number % 2)
        assert producer.flush(DEADLINE) == 0

    produce(5)  # before it begins

    async def work(client: Client) -> tuple[int, int, int]:
        seen = skipped = ticks = 0
        limit = 0
        events = Scanner(searcher.pool).tail(client, Search(topic=topic))
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Skipped):
                    skipped += event.count
                    continue
                ticks += 1
                if ticks == 1:
                    await asyncio.to_thread(produce, 2_000)
                seen += len(event.rows)
                limit = max(limit, len(event.rows))
                if seen + skipped >= 2_000:
                    break
        return seen, skipped, limit

    seen, skipped, limit = searcher.with_client(broker.bootstrap_servers, work)
    assert seen + skipped == 2_000
    assert 0 < limit <= 25  # 50 a second, in ticks of half a second


def test_paused_tail_reports_the_number_of_missed_lines(searcher: Searcher, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("paused", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    async def first(client: Client, search: Search) -> Hits | Skipped:
        events = Scanner(searcher.pool).tail(client, search)
        async with aclosing(events):
            return await anext(events)

    async def work(client: Client) -> Hits | Skipped:
        began = await first(client, Search(topic=topic))
        assert isinstance(began, Hits)
        for _ in range(30):
            producer.produce(topic, b"x", partition=0)
        assert producer.flush(DEADLINE) == 0
        return await first(client, Search(topic=topic, continue_at=began.continue_at))

    assert searcher.with_client(broker.bootstrap_servers, work) == Skipped(30)


def test_a_process_without_a_job_is_stopped_and_the_next_search_starts_another(
    searcher: Searcher, broker: EmbeddedBroker, orders: str
) -> None:
    async def work(client: Client) -> tuple[int | None, int, int]:
        pool = Pool(1, idle=0.2)
        try:
            scanner = Scanner(pool)
            (process,) = pool.processes
            await gather(scanner.search(client, Search(topic=orders, find="DE")))
            first = process.pid
            async with asyncio.timeout(DEADLINE):
                while process.is_running:  # noqa: ASYNC110  # it ends in another process
                    await asyncio.sleep(0.01)
            hits, _ = await gather(scanner.search(client, Search(topic=orders, limit=3)))
            return first, process.pid or 0, len(hits)
        finally:
            await pool.close()

    first, second, hits = searcher.with_client(broker.bootstrap_servers, work)
    assert first not in (None, second)
    assert hits == 3


PARENT = """
import asyncio
from barnabas.services.console.scanning.process import Pool

async def main():
    pool = Pool(1)
    await pool.start()
    print(pool.processes[0].pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_search_process_ends_with_its_console_even_if_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        search_process = Path("/proc", parent.stdout.readline().strip())
        assert search_process.exists()
        parent.kill()
    until(lambda: not (search_process.exists() and "State:\tZ" not in _status(search_process)))


def _status(process: Path) -> str:
    try:
        return (process / "status").read_text()
    except OSError:
        return "State:\tZ"


def test_processes_authenticate_as_the_searching_user_without_passwords_in_command_lines(
    searcher: Searcher,
) -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
    }
    users = {"root": "password-of-root", "alice": "password-of-alice"}
    with EmbeddedBroker(settings, security="SASL_PLAINTEXT", users=users) as broker:
        topic = broker.create_topic("secret", partitions=1)
        producer = Producer(broker.clients_of("root").confluent)
        producer.produce(topic, b"a secret")
        assert producer.flush(DEADLINE) == 0

        async def find(user: str) -> int:
            security = parse_security(broker.clients_of(user).java)
            async with Client(broker.bootstrap_servers, security=security) as client:
                hits, _ = await gather(Scanner(searcher.pool).search(client, Search(topic=topic)))
                return len(hits)

        assert searcher.run(find("root")) == 1
        with pytest.raises(KafkaError) as error:
            searcher.run(find("alice"))
        assert error.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for process in (each for each in searcher.pool.processes if each.is_running):
        body = b"".join(Path(f"/proc/{process.pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
        assert b"password-of" not in body
