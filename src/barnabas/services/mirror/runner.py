"""The mirror process: runs links from one or several sources to a target until it is stopped.

Each link has three loops: topics, configs, ACLs and groups every few seconds; mirror states and failures every second;
and the workers that copy batches. Failures of the first two are reported and retried without stopping the workers.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from barnabas.client import Client, ClientError, TopicMetadata
from barnabas.client.admin import describe_cluster
from barnabas.client.mirrors import has_mirrors
from barnabas.client.mirrors.store import LinkStatus, MirrorStore
from barnabas.client.retry import RetryPolicy, retry
from barnabas.client.security import PLAINTEXT, ClientSecurity
from barnabas.client.status import StatusReporter
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.services.mirror.acls import follow_acls
from barnabas.services.mirror.appending import AppendingTarget
from barnabas.services.mirror.fetching import FetchLimits, check_speaks_topic_ids
from barnabas.services.mirror.groups import TopicFollowers
from barnabas.services.mirror.leader_workers import LeaderWorker, LeaderWorkers, locate
from barnabas.services.mirror.links import LinkTopics
from barnabas.services.mirror.mirror_topics import MirrorTopics, PlainTopics
from barnabas.services.mirror.partition import FORBIDDEN
from barnabas.services.mirror.plan import MirrorPlanner
from barnabas.services.mirror.producer import ProducingTarget
from barnabas.services.mirror.reporter import status_of
from barnabas.services.mirror.settings import MirrorSettings, SourceAddress

ORDERS_SECONDS = 1.0
LOCATE_SECONDS = 0.1
LEADERS_SECONDS = 0.5
AGAIN_SECONDS = 60.0
"""Interval of repeated messages about an unreachable cluster."""
CLIENT_ID = "barnabas-mirror"
FINAL = FORBIDDEN | {ErrorCode.PRODUCER_FENCED}
"""Missing permissions, or another mirror of the same link."""

_logger = safe_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MirrorClients:
    """Clients of one link. Administration has separate connections, since fetches and appends are long-running."""

    source: Client
    target: Client
    fetching: Client
    appending: Client

    @classmethod
    def of(cls, source: SourceAddress, target: str, security: ClientSecurity) -> Self:
        def client(bootstrap: str, settings: ClientSecurity) -> Client:
            return Client(bootstrap, client_id=CLIENT_ID, security=settings)

        return cls(
            client(source.bootstrap, source.security),
            client(target, security),
            client(source.bootstrap, source.security),
            client(target, security),
        )

    async def close(self) -> None:
        for client in (self.source, self.target, self.fetching, self.appending):
            await client.close()


class LinkRunner:
    """Runs one link; created by `open_link`."""

    def __init__(
        self,
        name: str,
        settings: MirrorSettings,
        clients: MirrorClients,
        planner: MirrorPlanner,
        *,
        produces: bool,
    ) -> None:
        self.name = name
        self.settings = settings
        self._errors: dict[str, str] = {}
        self.clients = clients
        self.produces = produces
        self._store = MirrorStore(clients.target, name)
        self._followers = TopicFollowers(clients.source, clients.target, self._store, settings, name)
        factor, cluster = settings.replication_factor, planner.source_cluster
        plain = PlainTopics(clients.target, self._store, merge=settings.merge, replication_factor=factor)
        administration = plain if produces else MirrorTopics(clients.target, name, cluster, factor)
        self.topics = LinkTopics(clients.source, clients.target, planner, administration, settings.following)
        topics, store = self.topics.book.topics, MirrorStore(clients.appending, name)
        self._producing = ProducingTarget(clients.appending, store, cluster, topics) if produces else None
        self.data = self._producing or AppendingTarget(
            clients.appending, topics, keep_deleted=settings.keep_deleted
        )
        self._limits = FetchLimits(committed_only=produces)
        self._lanes = LeaderWorkers(self._lane)

    @property
    def error(self) -> str:
        """Most recent unresolved error."""
        return next((text for text in self._errors.values() if text), "")

    def _lane(self, leader: int) -> LeaderWorker:
        topics = self.topics
        return LeaderWorker(
            self.clients.fetching, leader, topics.book, self.data, topics.raise_epochs, self._limits
        )

    async def run(self, stop: asyncio.Event) -> None:
        try:
            await unless_stopped(self._work(), stop)
        finally:
            await self._lanes.stop()

    async def _work(self) -> None:
        # During startup all errors are raised to the caller, except for unreachable clusters.
        await retry(self._begin, RetryPolicy(math.inf), self._note_start)
        await self._attempt("orders", self.topics.apply_commands)
        loops = [
            asyncio.create_task(self._every(self.settings.refresh, "refresh", self._refresh)),
            asyncio.create_task(self._every(ORDERS_SECONDS, "orders", self.topics.apply_commands)),
            asyncio.create_task(self._carry()),
        ]
        try:
            done, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _begin(self) -> None:
        await self._store.open()
        await self._refresh()

    async def _note_start(self, error: Exception) -> None:
        self._on_failure("refresh", error)

    async def _refresh(self) -> None:
        await self.topics.refresh()
        if self.settings.acls:
            clients, names = self.clients, self.topics.live_names()
            warnings = await follow_acls(clients.source, clients.target, self._store, names)
            self.topics.notices.acls = warnings
        await self._followers.follow(self.topics, self._producing)

    async def _carry(self) -> None:
        """Run workers for the current leaders, and look up unknown positions in the target."""
        book, fetching, due, entered = self.topics.book, self.clients.fetching, 0.0, 0
        while True:
            try:
                if len(book.partitions) != entered or (self._is_leaderless() and time.monotonic() > due):
                    due = time.monotonic() + LEADERS_SECONDS
                    await fetching.refresh(list(book.topics))
                    entered = len(book.partitions)
                await locate(fetching, book, self.data)
                self._errors["carry"] = ""
            except (ClientError, KafkaError) as error:
                self._on_failure("carry", error)
                await asyncio.sleep(0.5)
                await fetching.refresh_quietly(list(book.topics))
            self._lanes.follow(self._leaders())
            await asyncio.sleep(LOCATE_SECONDS)

    def _is_leaderless(self) -> bool:
        """True if a partition has no known leader: no worker would refresh its metadata."""
        topics, states = self.clients.fetching.metadata.topics, self.topics.book.partitions
        return any(
            each.state is LinkStatus.SOURCE_UNAVAILABLE
            or (each.is_fetching and not _has_leader(topics.get(name), index))
            for (name, index), each in states.items()
        )

    def _leaders(self) -> set[int]:
        topics = self.clients.fetching.metadata.topics
        return {
            partition.leader
            for name in self.topics.book.topics
            if name in topics
            for partition in topics[name].partitions.values()
            if partition.leader >= 0
        }

    async def _every(self, seconds: float, name: str, work: Callable[[], Awaitable[Any]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            await self._attempt(name, work)

    async def _attempt(self, name: str, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            await work()
            self._errors[name] = ""
        except (ClientError, KafkaError, TimeoutError) as error:
            self._on_failure(name, error)

    def _on_failure(self, name: str, error: Exception) -> None:
        """Record an error that can be retried; raise any other."""
        if isinstance(error, KafkaError) and error.code in FINAL:
            raise error
        if self._errors.get(name) != str(error):
            _logger.warning("retrying link %s: %s", self.name, error)
        self._errors[name] = str(error)

    def give_up(self, error: Exception) -> None:
        self._errors = {"": str(error)}


def _has_leader(topic: TopicMetadata | None, index: int) -> bool:
    return topic is not None and index in topic.partitions and topic.partitions[index].leader >= 0


async def open_link(
    source: SourceAddress,
    target: str,
    settings: MirrorSettings,
    security: ClientSecurity = PLAINTEXT,
    say: Callable[[str], None] = _logger.warning,
) -> LinkRunner:
    """Connect to both clusters, waiting until they are reachable, and check versions and settings."""
    clients = MirrorClients.of(source, target, security)
    try:
        at_source = _patient(f"the source {source.alias}", say)
        at_target = _patient("the target", say)
        source_cluster = await at_source(lambda: describe_cluster(clients.source))
        target_cluster = await at_target(lambda: describe_cluster(clients.target))
        await at_source(lambda: check_speaks_topic_ids(clients.source))
        has_own_mirrors = await at_target(lambda: has_mirrors(clients.target))
        planner = MirrorPlanner(
            settings.rules(source.alias), source_cluster.cluster_id, target_cluster.cluster_id
        )
        produces = settings.merge or not has_own_mirrors
        return LinkRunner(source.alias, settings, clients, planner, produces=produces)
    except BaseException:
        await clients.close()
        raise


def _patient(
    side: str, say: Callable[[str], None]
) -> Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]:
    """Return a function that retries requests until the cluster is reachable, and reports the wait."""
    due = 0.0

    async def tell(error: Exception) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + AGAIN_SECONDS
            say(f"waiting for {side}: {error}")

    return lambda ask: retry(ask, RetryPolicy(math.inf), tell)


async def unless_stopped(work: Awaitable[T], stop: asyncio.Event) -> T | None:
    """Return the result of `work`; if `stop` is set first, cancel it and return None."""
    working, stopping = asyncio.ensure_future(work), asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working in done else None
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


async def run_links(links: Sequence[LinkRunner], stop: asyncio.Event) -> None:
    """Run until `stop` is set. If a link fails, stop all of them and raise its error."""
    tasks = [asyncio.create_task(_run_and_report(link, stop)) for link in links]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        stop.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in links:
            await link.clients.close()


async def _run_and_report(link: LinkRunner, stop: asyncio.Event) -> None:
    reporter = StatusReporter(link.clients.target, lambda: status_of(link, time.time()))
    reporting = asyncio.create_task(reporter.run())
    try:
        await link.run(stop)
        await reporter.report("stopped")
    except (ClientError, KafkaError) as error:
        link.give_up(error)
        await reporter.report("failed")
        raise
    finally:
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
