"""One cluster of the console: its connections and background services."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

from barnabas.client import Client, ClientError
from barnabas.client.schemas import RegistryAccount, discover_registry
from barnabas.client.schemas.client import RegistryError
from barnabas.common.safe_logging import rate_limited_logger
from barnabas.services.console.administration.moving import Mover
from barnabas.services.console.administration.rights import TieredTopics, TopicKeepings
from barnabas.services.console.alarms.tracker import AlarmTracker
from barnabas.services.console.exporter.lines import Exporter
from barnabas.services.console.exporter.publishing import Publisher
from barnabas.services.console.exporter.watch import ClusterWatch
from barnabas.services.console.history.history import History
from barnabas.services.console.logs.service import LogService
from barnabas.services.console.sampling.sampler import Sampler
from barnabas.services.console.scanning.login import registry_of
from barnabas.services.console.scanning.process import Pool
from barnabas.services.console.scanning.scanner import Scanner
from barnabas.services.console.settings import ClusterSettings, ConsoleSettings
from barnabas.services.console.statuses import StatusBoard

CLIENT_ID = "barnabas-console"
SUBJECTS_SECONDS = 10.0
DISCOVERY_SECONDS = 60.0
SUBJECTS_TIMEOUT = 3.0

log = rate_limited_logger(__name__)


class Cluster:
    def __init__(self, settings: ClusterSettings, console: ConsoleSettings, pool: Pool) -> None:
        self.settings = settings
        self.name = settings.name
        self.folder: Path = console.data / settings.name
        self.client = Client(settings.bootstrap, client_id=CLIENT_ID, security=settings.security)
        self.mover = Mover(self.folder / "moves.json")
        self._read_only = console.read_only
        self.tiered = TieredTopics()
        self.keepings = TopicKeepings()
        self.history = History(self.folder / "history.sqlite")
        self.sampler = Sampler(self.client, self.history)
        self.statuses = StatusBoard(self.client)
        self.watch = ClusterWatch(self.sampler, self.client, self.statuses)
        self.exporter = Exporter(self.watch)
        self.alarms = AlarmTracker()
        self.watch.followers.append(self.alarms.follow)
        if console.publish_metrics:
            publisher = Publisher(self.client, console.publish_metrics, self.name)
            self.watch.followers.append(publisher.publish)
        self.logs = LogService(self.client, self.folder / "logs", settings, self.statuses)
        by_user = settings.registry_by_user
        self.scanner = Scanner(pool, settings.registry, registry_by_user=by_user)
        self.registry = ClusterRegistry(settings.registry, self.client, self.scanner, by_user=by_user)
        self.subjects = Subjects(self.name, self.registry, self.client)

    async def start(self) -> None:
        """Start without waiting for the cluster; pages report that it is unreachable."""
        await self.history.open()
        self.registry.start()
        self.sampler.start()
        self.watch.start()
        self.statuses.start()
        self.logs.start()
        if not self._read_only:
            self.mover.resume_own(self.client)

    async def stop(self) -> None:
        await self.registry.close()
        await self.logs.close()
        await self.statuses.close()
        await self.mover.stop()
        await self.watch.close()
        await self.exporter.close()
        await self.sampler.close()
        await self.history.close()
        await self.client.close()


class ClusterRegistry:
    """The registry of `console.yml`; without a URL there it is the one that the cluster names, if any."""

    def __init__(
        self, account: RegistryAccount, client: Client, scanner: Scanner, *, by_user: bool = False
    ) -> None:
        self.account = account
        self.by_user = by_user
        self.subjects: int | None = None
        """Number of subjects; None until the registry has answered."""
        self._wanted = account
        self._client = client
        self._scanner = scanner
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def of(self, client: Client) -> RegistryAccount:
        """The account for the user of a client."""
        return registry_of(self.account, client, by_user=self.by_user)

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_looking())

    def changed(self) -> None:
        """Count the subjects again now."""
        self._changed.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _keep_looking(self) -> None:
        while True:
            if not self._wanted.is_located:
                await self._discover()
            self.subjects = await self._count()
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), DISCOVERY_SECONDS)

    async def _discover(self) -> None:
        try:
            self.account = await discover_registry(self._client, self._wanted) or self._wanted
        except RegistryError as error:
            log.warning("the schema registry of the cluster is not used: %s", error)
        self._scanner.registry = self.account

    async def _count(self) -> int | None:
        if not self.account.is_located:
            return None
        try:
            return await asyncio.to_thread(self._subjects)
        except (ClientError, ValueError, OSError):
            return None

    def _subjects(self) -> int:
        with self.of(self._client).client(SUBJECTS_TIMEOUT) as client:
            return len(client.request("GET", "/subjects?subjectPrefix=:*:"))


class Subjects:
    """Subjects of the schema registry, for checking users' rights on schemas."""

    def __init__(self, cluster: str, registry: ClusterRegistry, client: Client) -> None:
        self._cluster = cluster
        self._client = client
        self._registry = registry
        self._names: list[str] = []
        self._until = 0.0

    async def names(self) -> list[str]:
        """Empty if the registry is unreachable: then only schemas of the topic itself can be read."""
        if self._registry.account.is_located and time.monotonic() >= self._until:
            try:
                self._names = await asyncio.to_thread(self._read)
            except (ClientError, ValueError, OSError) as error:
                log.warning("the schema registry of %s cannot list its subjects: %s", self._cluster, error)
                self._names = []
            self._until = time.monotonic() + SUBJECTS_SECONDS
        return self._names

    def _read(self) -> list[str]:
        with self._registry.of(self._client).client(SUBJECTS_TIMEOUT) as client:
            return client.subjects()
