"""From a file to a page: a real agent, a real broker, and grep as the reference."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from barnabas.client import admin
from barnabas.client.access.acls import create_acls
from barnabas.client.cluster import Client
from barnabas.client.producer import Producer
from barnabas.client.security.parsing import parse_security
from barnabas.security.authz.acls import AclBinding
from barnabas.security.authz.authorizer import Operation, ResourceType
from barnabas.services.console.logs import store
from barnabas.services.console.logs.archive import LogArchive
from barnabas.services.console.logs.query import LineFilter, read_text
from barnabas.services.console.logs.service import LogTopics, topics_of_agents
from barnabas.services.console.logs.store import LogStore, LogStoreSettings
from barnabas.services.ingest.files.source import FilesSettings, FilesSource
from barnabas.services.ingest.metrics import status_of
from barnabas.testing import EmbeddedBroker
from tests.client.test_transactions import write_transactions
from tests.services.ingest.running import RunningAgent
from tests.support.waiting import until

LINES = 3000
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LITERAL, ALLOW = 3, 3


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def write_log(path: Path, first: int = 0, count: int = LINES) -> None:
    levels = ("INFO", "WARN", "ERROR", "DEBUG")
    with path.open("ab") as file:
        for number in range(first, first + count):
            text = f"2026-10-01T12:{number // 60 % 60:02d}:{number % 60:02d}Z {levels[number % 4]} order {number} café"
            file.write(text.encode() + (b" \xff\xfe" if number % 50 == 0 else b"") + b"\n")


def files_source(folder: Path, topic: str) -> FilesSource:
    settings = FilesSettings([f"{folder}/*.log"], topic, "web-1", f"{topic}.dead-letters")
    return FilesSource("files", settings)


def grep(path: Path, *arguments: str) -> int:
    found = subprocess.run(
        ["grep", "-a", "-c", *arguments, str(path)], capture_output=True, text=True, env={"LC_ALL": "C.UTF-8"}
    )
    return int(found.stdout)


async def kept(bootstrap: str, folder: Path, topic: str, chunk_rows: int = 1000) -> LogArchive:
    """Everything that is in the topic now."""
    client = Client(bootstrap)
    archive = LogArchive(
        client, folder, LogTopics([topic]), LogStoreSettings(keep_seconds=1e9, chunk_rows=chunk_rows)
    )
    await archive.tailer.catch_up()
    await client.close()
    return archive


@pytest.mark.parametrize(
    ("find", "is_pattern", "judge"),
    [
        ("order 17", False, ["-i", "order.*17\\|17.*order"]),
        ('"ORDER 17"', False, ["-iF", "order 17"]),
        (r"order \d+[13579] caf", True, ["-iE", "order [0-9]+[13579] caf"]),
        ("-error -info", False, ["-vi", "error\\|info"]),
        ("CAFÉ", False, ["-i", "café"]),
        ("nobody wrote this", False, ["-F", "nobody"]),
    ],
)
def test_lines_that_an_agent_took_are_found_as_grep_finds_them(
    broker: EmbeddedBroker, tmp_path: Path, find: str, is_pattern: bool, judge: list[str], logged: Path
) -> None:
    async def work() -> int:
        archive = await kept(broker.bootstrap_servers, tmp_path / "kept", logged.name)
        found = await archive.search(LineFilter(read_text(find, is_pattern=is_pattern)), limit=10)
        assert found.total == LINES
        archive.close()
        return found.matched

    assert asyncio.run(work()) == grep(logged / "shop.log", *judge)


@pytest.fixture(scope="module")
def logged(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log whose lines are in the topic of the folder's name."""
    folder = tmp_path_factory.mktemp("written")
    write_log(folder / "shop.log")
    with RunningAgent(broker.bootstrap_servers, [files_source(folder, folder.name)]) as running:
        agent = running.agent
        assert agent is not None
        until(lambda: agent.counts.records >= LINES, "the agent has read the log")
        assert topics_of_agents([status_of(agent)]) == (folder.name,)
    return folder


CHILD = """
import asyncio, sys
from pathlib import Path
from barnabas.client import admin
from barnabas.client.access.acls import create_acls
from barnabas.client.cluster import Client
from barnabas.services.console.logs.archive import LogArchive
from barnabas.services.console.logs.store import LogStoreSettings
from barnabas.services.console.logs.service import LogTopics

async def main(bootstrap, folder, topic):
    settings = LogStoreSettings(keep_seconds=1e9, chunk_rows=300)
    archive = LogArchive(Client(bootstrap), Path(folder), LogTopics([topic]), settings)
    await archive.run()

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_kill_loses_no_line_and_doubles_none(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic, folder = f"killed-{uuid4().hex}", tmp_path / "kept"
    write_log(tmp_path / "shop.log", count=1000)
    with RunningAgent(broker.bootstrap_servers, [files_source(tmp_path, topic)]) as running:
        agent = running.agent
        assert agent is not None
        until(lambda: agent.counts.records >= 1000, "the agent has read the log")
        child = subprocess.Popen([sys.executable, "-c", CHILD, broker.bootstrap_servers, str(folder), topic])
        try:
            until(lambda: list(folder.glob("*.arrow")), "a file is written")
            write_log(tmp_path / "shop.log", 1000, 100)  # some of them only in the memory of the child
            until(lambda: agent.counts.records >= 1100, "the agent has read more")
        finally:
            os.kill(child.pid, signal.SIGKILL)
            child.wait(30)
        write_log(tmp_path / "shop.log", 1100, 400)
        until(lambda: agent.counts.records >= 1500, "the agent has read the rest")
    before = LogStore(folder)
    assert 0 < before.rows < 1500
    before.close()

    archive = asyncio.run(kept(broker.bootstrap_servers, folder, topic, chunk_rows=300))
    found = sorted(
        offset for chunk in archive.store.chunks for offset in chunk.rows.column("offset").to_pylist()
    )
    assert len(found) == len(set(found)) == 1500
    archive.close()


def test_aborted_lines_are_not_kept_and_a_recreated_topic_is_read_again(
    bootstrap: str, tmp_path: Path
) -> None:
    topic = f"logs-{uuid4().hex}"

    async def messages(folder: Path) -> list[str]:
        archive = await kept(bootstrap, folder, topic)
        found = await archive.search(LineFilter())
        archive.store.flush()
        archive.close()
        return [line.message for line in found.lines]

    async def work() -> None:
        async with Client(bootstrap) as client:
            await admin.create_topic(client, topic)
        await asyncio.to_thread(write_transactions, bootstrap, topic)
        assert await messages(tmp_path) == ["2", "0"]
        async with Client(bootstrap) as client:
            await admin.delete_topics(client, [topic])
            await admin.create_topic(client, topic)
            async with Producer(client) as producer:
                for number in range(9):
                    await producer.send(topic, b"anew %d" % number, partition=0)
        assert sorted(await messages(tmp_path)) == ["0", "2", *(f"anew {number}" for number in range(9))]

    asyncio.run(work())


def test_a_topic_that_the_console_may_not_read_does_not_stop_the_others(tmp_path: Path) -> None:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    users = {"admin": "admins-password", "console": "consoles-password"}
    rights = [
        AclBinding(ResourceType.TOPIC, name, LITERAL, "User:console", "*", operation, ALLOW)
        for name, operation in (
            ("open", Operation.READ), ("open", Operation.DESCRIBE), ("shut", Operation.DESCRIBE),
        )
    ]  # fmt: skip

    async def work(guarded: EmbeddedBroker) -> None:
        as_admin = parse_security(guarded.clients_of("admin").java)
        async with (
            Client(guarded.bootstrap_servers, security=as_admin) as admins,
            Producer(admins) as producer,
        ):
            await create_acls(admins, rights)
            for topic in ("shut", "open"):
                await producer.send(topic, b"a line", partition=0)
        as_console = parse_security(guarded.clients_of("console").java)
        async with Client(guarded.bootstrap_servers, security=as_console) as client:
            archive = LogArchive(client, tmp_path, LogTopics(["shut", "open", "unknown"]))
            await archive.tailer.step()
            found = await archive.search(LineFilter())
            assert [line.topic for line in found.lines] == ["open"]
            assert archive.status.refused == ["shut"]
            assert not await archive.tailer.step()
            archive.close()

    with EmbeddedBroker(settings, security="SASL_PLAINTEXT", users=users) as guarded:
        for topic in ("open", "shut"):
            guarded.create_topic(topic)
        asyncio.run(work(guarded))


def test_a_full_disk_stops_the_reading_and_not_the_search(
    broker: EmbeddedBroker, tmp_path: Path, logged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async def work() -> None:
        async with Client(broker.bootstrap_servers) as client:
            settings = LogStoreSettings(keep_seconds=1e9, chunk_rows=10)
            archive = LogArchive(client, tmp_path, LogTopics([logged.name]), settings)
            with monkeypatch.context() as full:
                full.setattr(store, "write_chunk", refuse)
                kept_lines = []
                for _ in range(3):
                    with pytest.raises(OSError, match="No space"):
                        await archive.run()
                    kept_lines.append((await archive.search(LineFilter())).matched)
            assert kept_lines[0] == kept_lines[2] > 0
            await archive.tailer.catch_up()
            assert (await archive.search(LineFilter())).matched == LINES
            archive.close()

    asyncio.run(work())
