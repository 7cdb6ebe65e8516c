"""`barnabas mirror run` as a separate process that can be killed, with queries of both sides."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

from barnabas.client.cluster import Client
from barnabas.client.fetching import FetchSettings, fetch
from barnabas.client.mirrors.store import LinkStatus
from barnabas.client.offsets import beginning_offsets, end_offsets
from barnabas.client.security.settings import PLAINTEXT, ClientSecurity
from barnabas.common.loop_thread import LoopThread
from barnabas.common.types import TopicPartition
from barnabas.network import new_event_loop
from barnabas.records.batch import iterate_headers
from barnabas.services.mirror.partition import SourcePartition
from barnabas.services.mirror.runner import LinkRunner, open_link, run_links
from barnabas.services.mirror.settings import MirrorSettings, SourceAddress
from tests.support.waiting import until

DEADLINE = 60.0
READY = "Ctrl-C stops it."

T = TypeVar("T")


class MirrorProcess:
    """`lines` is its complete output."""

    def __init__(self, source: str, target: str, *arguments: str) -> None:
        self._command = [
            sys.executable, "-m", "barnabas", "mirror", "run", "--from", f"src={source}", "--to", target,
            "--every", "1s", *arguments,
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None
        self.lines: list[str] = []

    def start(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        return self

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            self.lines.extend(output)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def wait(self) -> int:
        assert self._process is not None
        return self._process.wait(DEADLINE)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(DEADLINE)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if error is not None:
            error.add_note("the mirror said:\n" + "".join(self.lines))


def ask(bootstrap: str, work: Callable[[Client], Awaitable[T]]) -> T:
    async def requested() -> T:
        async with Client(bootstrap) as client:
            return await work(client)

    return asyncio.run(requested())


def wait_for(check: Callable[[], T], seconds: float = DEADLINE) -> T:
    """First true result of `check`; an error counts as not yet, since a broker of the test may be away."""
    return until(check, seconds=seconds, ignoring=Exception)


def ends(bootstrap: str, topic: str) -> list[int]:
    """Where the partitions of a topic end."""

    async def work(client: Client) -> list[int]:
        found = await end_offsets(client, await client.partitions([topic]))
        return [found[tp] for tp in sorted(found)]

    return ask(bootstrap, work)


def starts(bootstrap: str, topic: str) -> list[int]:
    async def work(client: Client) -> list[int]:
        found = await beginning_offsets(client, await client.partitions([topic]))
        return [found[tp] for tp in sorted(found)]

    return ask(bootstrap, work)


def batches(bootstrap: str, tp: TopicPartition) -> bytes:
    """Every batch of a partition, as a reader of everything gets them: concatenated."""

    async def work(client: Client) -> bytes:
        first, end = (
            (await beginning_offsets(client, [tp]))[tp],
            (await end_offsets(client, [tp]))[tp],
        )
        data = bytearray()
        while first < end:
            leader = await client.leader(tp)
            (answer,) = await fetch(client, leader, {tp: first}, FetchSettings(partition_bytes=8 << 20))
            assert not answer.error
            for start, header in iterate_headers(answer.records):
                data += answer.records[start : start + header.size]
                first = header.next_offset
        return bytes(data)

    return ask(bootstrap, work)


def all_batches(bootstrap: str, topic: str) -> list[bytes]:
    partitions = ask(bootstrap, lambda client: client.partitions([topic]))
    return [batches(bootstrap, tp) for tp in partitions]


class MirrorThread:
    """A mirror in this process, for access to its state."""

    def __init__(
        self, source: str, target: str, settings: MirrorSettings, security: ClientSecurity = PLAINTEXT
    ) -> None:
        self._source = SourceAddress("src", source, security)
        self._target = target
        self._settings = settings
        self._security = security
        self._loop = LoopThread("mirror", new_event_loop())
        self._stop = asyncio.Event()
        self.links: list[LinkRunner] = []
        self.ended: Future[None] | None = None

    def __enter__(self) -> Self:
        self.ended = self._loop.submit(self._run())
        return self

    async def _run(self) -> None:
        self.links = [await open_link(self._source, self._target, self._settings, self._security)]
        await run_links(self.links, self._stop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._set())
        if error is not None and self.links:
            for each in self.links[0].topics.book.partitions.values():
                error.add_note(
                    f"{each.tp} {each.state} {each.reason} {each.position} {each.log_end} {each.high_watermark}"
                )
            error.add_note(f"the link says: {self.links[0].error}")
        try:
            assert self.ended is not None
            if error is None:
                self.ended.result(DEADLINE)
        finally:
            self._loop.close()

    async def _set(self) -> None:
        self._stop.set()

    def partitions(self, state: LinkStatus) -> list[SourcePartition]:
        return self.links[0].topics.book.of(state) if self.links else []

    def failed(self) -> str:
        """The reason of a partition that is given up, as soon as there is one."""
        return until(lambda: self.partitions(LinkStatus.FAILED))[0].reason
