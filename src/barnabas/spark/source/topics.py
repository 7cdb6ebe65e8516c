"""Where topics lie, as the driver sees it: at brokers, or in an object store."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import re2

from barnabas.spark.options import OptionError
from barnabas.spark.source.offsets import Offsets
from barnabas.spark.source.settings import SourceSettings
from barnabas.common.types import TopicPartition

# A pattern such as `.*` means the topics of people: as in Spark's connector not the broker's own, and not the books of
# our sinks, which would grow with every batch that reads them, nor any other of our own (docs/ingest.md has the table).
OWN_TOPICS = "__barnabas_"


class Assigned(NamedTuple):
    places: list[TopicPartition]
    ids: dict[str, str]  # by topic; none from brokers that are too old to have them


class Topics(Protocol):
    def assigned(self, *, recent: bool = False) -> Assigned:
        """The partitions that the query is about: as of now, or, for who asks again and again, of some seconds ago."""
        ...

    def offsets_at(self, moments: Offsets) -> Offsets:
        """LATEST, EARLIEST or a time, for each partition; -1 where no record is that new."""
        ...


def topics_of(settings: SourceSettings) -> Topics:
    """Each brings its client: the other one's is not loaded."""
    if settings.remote is not None:
        from barnabas.spark.source.remote_topics import remote_topics

        return remote_topics(settings.remote, settings.subscription)
    from barnabas.spark.source.broker_topics import BrokerTopics

    return BrokerTopics(settings)


def matching(names: list[str], internal: frozenset[str] | set[str], pattern: str) -> list[str]:
    """The topics that a pattern means, sorted."""
    try:
        compiled = re2.compile(pattern)
    except re2.error as error:
        raise OptionError(
            f"option 'subscribePattern': {pattern!r} is no regular expression: {error}"
        ) from error
    meant = [name for name in sorted(names) if name not in internal and not name.startswith(OWN_TOPICS)]
    return [name for name in meant if compiled.search(name)]
