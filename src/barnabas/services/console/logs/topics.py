"""Which topics hold log lines: those that are named, or what agents and the template `logs` write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from barnabas.client.cluster import Client
from barnabas.client.metadata import Topic
from barnabas.client.status import Status

LEVEL_TOPICS = tuple(f"logs.{level}" for level in ("trace", "debug", "info", "warn", "error", "fatal"))
"""Of the template `logs`."""
LOG_SOURCES = frozenset({"files", "syslog"})
DEAD_LETTERS = ".dead-letters"


class LogTopics:
    """`names` may have `*`; none of them: the topics of agents, which `statuses` tells, and of the template."""

    def __init__(self, names: Iterable[str] = (), statuses: Callable[[], Iterable[Status]] = tuple) -> None:
        self._names = tuple(names)
        self._statuses = statuses

    async def find(self, client: Client) -> dict[str, Topic]:
        """Those that there are; what is missing now may come later."""
        wanted = self._names or (*LEVEL_TOPICS, *topics_of_agents(self._statuses()))
        has_patterns = any("*" in name for name in wanted)
        found = (await client.refresh(None if has_patterns else dict.fromkeys(wanted))).topics
        return {
            name: topic
            for name, topic in found.items()
            if not topic.error and not topic.internal and any(fnmatchcase(name, each) for each in wanted)
        }


def topics_of_agents(statuses: Iterable[Status]) -> tuple[str, ...]:
    """Where running or stopped agents write lines of files and messages of syslog."""
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
