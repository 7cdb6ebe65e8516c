"""A task queue with workers that crash, delay, reject, release and renew: no job is lost or done twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from barnabas.client.cluster import Client
from barnabas.client.share.acquired import AcknowledgeType
from barnabas.client.share.consumer import ShareConsumer
from barnabas.client.share.redriving import read_letters
from barnabas.client.share.status import describe_queue
from barnabas.testing import EmbeddedBroker
from tests.share.job_worker import GIVEN_BACK_OF_100, LOCK_SECONDS, REJECTED_OF_100, is_dead_letter
from tests.share.test_with_clients import publish, set_group
from tests.support.waiting import async_eventually

WORKERS = 3
TIMEOUT_S = 240.0
# A partition may be assigned to crashed members only, until their sessions expire: soon, here.
SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "4000",
    "group.share.min.heartbeat.interval.ms": "500",
}
GROUP, DEAD = "crew", "dlq.jobs"


class Worker:
    """Restarted after every crash until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, mishaps: Path) -> None:
        self.done: list[int] = []
        self.unsure: list[int] = []
        self.crashes = 0
        self._command = [
            sys.executable,
            "-m",
            "tests.share.job_worker",
            bootstrap,
            GROUP,
            topic,
            str(mishaps),
        ]
        self._stopped = False
        self._process = self._start()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)

    def _run(self) -> None:
        while True:
            self._read()
            self._process.wait()
            if self._stopped:
                return
            self.crashes += 1
            self._process = self._start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                word, number = line.split()
                (self.done if word == "done" else self.unsure).append(int(number))

    def stop(self) -> None:
        self._stopped = True
        self._process.terminate()
        self._thread.join()


async def work_slowly(bootstrap: str, topic: str, done: list[int]) -> None:
    """One more worker, which takes few jobs at a time and renews their locks before it is done with them."""
    async with Client(bootstrap) as client, ShareConsumer(client, GROUP, [topic]) as consumer:
        for _ in range(5):
            taken = await consumer.take(20)
            taken = [one for one in taken if not is_dead_letter(int(one.record.value or b""))]
            begun = time.monotonic()
            while taken and time.monotonic() - begun < LOCK_SECONDS * 1.2:
                await consumer.renew(taken)
                await asyncio.sleep(LOCK_SECONDS / 8)
            for one in taken:
                consumer.answer(one, AcknowledgeType.ACCEPT)
            refused = {offset for refusal in await consumer.flush() for offset in refusal.offsets}
            done += [int(one.record.value or b"") for one in taken if one.offset not in refused]


async def until_all_is_done(bootstrap: str, topic: str) -> list[int]:
    """Wait until the group has no job left; the numbers of its dead letters."""
    async with Client(bootstrap) as client:
        await async_eventually(
            lambda: describe_queue(client, topic, GROUP), lambda queue: not queue.lag, TIMEOUT_S, every=0.5
        )
        letters = await read_letters(client, DEAD, lambda letter: True)
    return [int(letter.value or b"") for letter in letters]


async def drain(bootstrap: str, topic: str, slowly: list[int]) -> list[int]:
    _, dead = await asyncio.gather(work_slowly(bootstrap, topic, slowly), until_all_is_done(bootstrap, topic))
    return dead


@pytest.mark.timeout(TIMEOUT_S + 60)
@pytest.mark.parametrize("jobs", [30_000, pytest.param(100_000, marks=pytest.mark.extended)])
def test_each_of_many_jobs_is_done_once_or_is_a_dead_letter(tmp_path: Path, jobs: int) -> None:
    """30,000 have crashes, dawdlers, rejected and given back ones; 100,000 have more of the same."""
    with EmbeddedBroker(settings=SETTINGS) as broker:
        bootstrap, topic = broker.bootstrap_servers, broker.create_topic(partitions=4)
        broker.create_topic(DEAD, configs={"errors.deadletterqueue.group.enable": "true"})
        set_group(
            bootstrap,
            GROUP,
            share_auto_offset_reset="earliest",
            share_session_timeout_ms="6000",
            share_heartbeat_interval_ms="1000",
            share_record_lock_duration_ms=str(int(LOCK_SECONDS * 1000)),
            errors_deadletterqueue_topic_name=DEAD,
            errors_deadletterqueue_copy_record_enable="true",
        )
        publish(bootstrap, topic, [str(number) for number in range(jobs)])
        workers = [Worker(bootstrap, topic, tmp_path) for _ in range(WORKERS)]
        slowly: list[int] = []
        try:
            dead = asyncio.run(drain(bootstrap, topic, slowly))
        finally:
            for worker in workers:
                worker.stop()
    done = Counter(number for worker in workers for number in worker.done) + Counter(slowly)
    unsure = {number for worker in workers for number in worker.unsure}
    assert sum(worker.crashes for worker in workers) == jobs // 10_000
    assert not [number for number, times in done.items() if times > 1]
    assert not done.keys() & set(dead)
    assert done.keys() | set(dead) | unsure == set(range(jobs))
    given_up = {n for n in range(jobs) if n % 100 in (REJECTED_OF_100, GIVEN_BACK_OF_100)}
    assert given_up <= set(dead) | unsure
