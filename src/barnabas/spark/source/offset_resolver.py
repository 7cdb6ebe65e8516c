"""Offset lookups of the driver: the partitions of a query, and the offsets of a point in time."""

from __future__ import annotations

import time
from collections.abc import Iterable

from barnabas.common.types import TopicPartition
from barnabas.spark.errors import SourceError
from barnabas.spark.source.offsets import EARLIEST, LATEST, Moment, Offsets, partitions_text
from barnabas.spark.source.settings import SourceSettings
from barnabas.spark.source.topics import AssignedPartitions, topics_of


class OffsetResolver:
    """Offset lookups of one query."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._topics = topics_of(settings)

    def assigned(self, *, recent: bool = False) -> AssignedPartitions:
        return self._topics.assigned(recent=recent)

    def resolve(self, moment: Moment, assigned: AssignedPartitions, *, starting: bool) -> Offsets:
        """Resolve a moment to current offsets."""
        if moment.word is not None:
            return self.offsets_at(dict.fromkeys(assigned.partitions, moment.word))
        if moment.offsets is not None:
            _check_complete(moment.offsets, assigned, "Offsets", starting)
            words = {tp: word for tp, word in moment.offsets.items() if word in (LATEST, EARLIEST)}
            return {**moment.offsets, **self.offsets_at(words)}
        if moment.timestamps is not None:
            _check_complete(moment.timestamps, assigned, "OffsetsByTimestamp", starting)
        times = moment.timestamps or dict.fromkeys(assigned.partitions, moment.timestamp or 0)
        return self._by_time(times, starting)

    def offsets_at(self, moments: Offsets) -> Offsets:
        """LATEST, EARLIEST or a timestamp, per partition; -1 if no record is that new."""
        return self._topics.offsets_at(moments)

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self.offsets_at(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition], known: Offsets) -> Offsets:
        """Log end offsets. An end before the last read is requested again: a broker may be starting."""
        found: Offsets = {}
        for attempt in range(self._settings.offset_attempts):
            if attempt:
                time.sleep(self._settings.offset_interval)
            found = self.offsets_at(dict.fromkeys(partitions, LATEST))
            if all(found[tp] >= known.get(tp, 0) for tp in found):
                break
        return found

    def _by_time(self, times: Offsets, starting: bool) -> Offsets:
        found = self.offsets_at(times)
        missing = [tp for tp, offset in found.items() if offset < 0]
        if missing and starting and not self._settings.latest_when_no_match:
            first = min(missing)
            raise SourceError(
                f"no record of {partitions_text(missing)} is as new as the timestamp {times[first]}; set the option "
                "'startingOffsetsByTimestampStrategy' to 'latest' to start at the end there"
            )
        return {**found, **self.offsets_at(dict.fromkeys(missing, LATEST))}


def _check_complete(given: Offsets, assigned: AssignedPartitions, what: str, starting: bool) -> None:
    if set(given) == set(assigned.partitions):
        return
    name = ("starting" if starting else "ending") + what
    raise SourceError(
        f"option {name!r} must name every partition (-1 is latest, -2 earliest): it names "
        f"{partitions_text(given)}, but the partitions are {partitions_text(assigned.partitions)}"
    )
