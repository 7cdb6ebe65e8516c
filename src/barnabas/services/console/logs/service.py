"""Log search of one cluster. Nothing is stored or imported until a topic with log lines exists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.client import Client, ClientError, TopicMetadata
from barnabas.client.status import ProcessStatus
from barnabas.common.errors import KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.services.console.errors import BusyError
from barnabas.services.console.settings import ClusterSettings
from barnabas.services.console.statuses import StatusBoard

if TYPE_CHECKING:
    from barnabas.services.console.logs.archive import LogArchive


# -- Topics with log lines: configured ones, or those of agents and of the template `logs` --------------

LEVEL_TOPICS = tuple(f"logs.{level}" for level in ("trace", "debug", "info", "warn", "error", "fatal"))
"""Topics of the template `logs`."""
LOG_SOURCES = frozenset({"files", "syslog"})
DEAD_LETTERS = ".dead-letters"


class LogTopics:
    """Topics with log lines. `names` may contain `*`; without names, the topics of agents in `statuses` and of the
    template `logs`."""

    def __init__(
        self, names: Iterable[str] = (), statuses: Callable[[], Iterable[ProcessStatus]] = tuple
    ) -> None:
        self._names = tuple(names)
        self._statuses = statuses

    async def find(self, client: Client) -> dict[str, TopicMetadata]:
        """Existing topics; missing ones may be created later."""
        wanted = self._names or (*LEVEL_TOPICS, *topics_of_agents(self._statuses()))
        has_patterns = any("*" in name for name in wanted)
        found = (await client.refresh(None if has_patterns else dict.fromkeys(wanted))).topics
        return {
            name: topic
            for name, topic in found.items()
            if not topic.error and not topic.internal and any(fnmatchcase(name, each) for each in wanted)
        }


def topics_of_agents(statuses: Iterable[ProcessStatus]) -> tuple[str, ...]:
    """Topics that running or stopped agents write log lines and syslog messages to."""
    return tuple(
        sorted(
            {
                topic
                for status in statuses
                if status.kind == "agent"
                for part in status.parts
                if part.kind in LOG_SOURCES
                for topic in part.topics
                if not topic.endswith(DEAD_LETTERS)
            }
        )
    )


LOOK_SECONDS = 3.0
FAILED_SECONDS = 15.0

_logger = safe_logger(__name__)


class LogService:
    """Runs the archive between `start` and `close`."""

    def __init__(
        self, client: Client, folder: Path, settings: ClusterSettings, statuses: StatusBoard
    ) -> None:
        self._client = client
        self._folder = folder
        self._settings = settings
        self._topics = LogTopics(settings.logs, lambda: statuses.current())
        self._statuses = statuses
        self._task: asyncio.Task[None] | None = None
        self._archive: LogArchive | None = None
        self._problem = ""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="logs")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        if self._archive is not None:
            self._archive.close()
            self._archive = None

    @property
    def archive(self) -> LogArchive | None:
        """None until a log topic exists; BusyError if lines cannot be stored."""
        if self._problem:
            raise BusyError(f"Log lines cannot be kept: {self._problem}")
        return self._archive

    async def _run(self) -> None:
        await self._statuses.looked.wait()
        while self._archive is None:
            if self._folder.exists() or await self._there_are_topics():
                await self._open()
            else:
                await asyncio.sleep(LOOK_SECONDS)
        while True:
            await self._keep_reading(self._archive)

    async def _keep_reading(self, archive: LogArchive) -> None:
        try:
            await archive.run()
        except Exception as error:  # a full disk, an unexpected line: stored lines stay searchable
            _logger.exception("log lines are not read now")
            archive.status.error = str(error)
            await asyncio.sleep(FAILED_SECONDS)

    async def _there_are_topics(self) -> bool:
        try:
            return bool(await self._topics.find(self._client))
        except (KafkaError, ClientError, TimeoutError, OSError):
            return False

    async def _open(self) -> None:
        try:
            self._archive = await asyncio.to_thread(self._opened)
            self._problem = ""
        except Exception as error:  # the other pages must keep working
            _logger.warning("log lines are not kept: %s", error)
            self._problem = str(error)
            await asyncio.sleep(FAILED_SECONDS)

    def _opened(self) -> LogArchive:
        """Open the archive, in a thread: imports Arrow and reads existing files."""
        from barnabas.services.console.logs.archive import LogArchive
        from barnabas.services.console.logs.store import LogStoreSettings

        settings = LogStoreSettings(int(self._settings.logs_gib * 1024**3), self._settings.logs_hours * 3600)
        return LogArchive(self._client, self._folder, self._topics, settings)
