"""Schemas of a registry that streams are planned with: a running pipeline is planned again when one of them changes.

A source takes its columns from the newest schema when it is planned. Values of later versions are then read with the
columns of that one, until the flow is planned again. A watch begins after the flows have started, which takes seconds,
so it compares the columns first: a schema may have been registered since the plan.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from barnabas.client import ClientError
from barnabas.client.schemas import RegistryAccount
from barnabas.common.durations import seconds_of
from barnabas.pipelines.running.broker_checks import leaves, relations
from barnabas.pipelines.running.plan import Planned
from barnabas.pipelines.running.sessions import FORMAT
from barnabas.spark import OptionError, Options
from barnabas.spark.source import schema_of

logger = logging.getLogger(__name__)

REGISTERED = ("avro", "protobuf")
TIMEOUT = 5.0  # seconds: the loop of the runner waits meanwhile
NOT_PLANNED_WITH = -1  # no id of a schema


class WatchedSubject(NamedTuple):
    name: str
    account: RegistryAccount
    options: Mapping[str, str]
    columns: StructType  # when the stream was planned

    def is_current(self) -> bool:
        """Return whether a plan of now has the same columns; unknown counts as the same."""
        try:
            return schema_of(self.options).simpleString() == self.columns.simpleString()
        except OptionError:
            return True


class SchemaWatch:
    """Compares the newest schemas with those of the last call. Not thread-safe."""

    def __init__(self, frames: Iterable[DataFrame], every: str | None) -> None:
        """`every` is the interval of the setting `schema_refresh`; without it nothing is asked."""
        self._seconds = 0.0 if every is None else seconds_of(every)
        found = [] if every is None else list(_subjects(frames))
        self._subjects = list({subject.name: subject for subject in found}.values())
        self._seen = self._newest()
        self._seen |= {subject.name: NOT_PLANNED_WITH for subject in found if not subject.is_current()}
        self._asked = time.monotonic()

    def changed(self) -> list[str]:
        """Return the subjects that have a new schema; the registry is asked once per interval."""
        if not self._subjects or time.monotonic() - self._asked < self._seconds:
            return []
        newest = self._newest()
        self._asked = time.monotonic()
        changed = sorted(name for name, number in newest.items() if self._seen.get(name, number) != number)
        self._seen |= newest
        return changed

    def _newest(self) -> dict[str, int]:
        """Without the subjects whose registry does not answer: a pipeline does not stop because of it."""
        found: dict[str, int] = {}
        for subject in self._subjects:
            try:
                with subject.account.client(TIMEOUT) as client:
                    found[subject.name] = client.latest(subject.name).id
            except (ClientError, OSError, ValueError) as error:
                logger.warning("The newest schema of %s is not known: %s", subject.name, error)
        return found


def source_columns(streams: Iterable[Planned]) -> dict[str, list[str]]:
    """Return the columns that the sources of each stream were planned with."""
    return {query.name: [columns.simpleString() for columns in _columns(query.frame)] for query in streams}


def _columns(frame: DataFrame) -> list[StructType]:
    return [StructType.fromJson(json.loads(leaf.schema().json())) for leaf in leaves(frame)]


def _subjects(frames: Iterable[DataFrame]) -> Iterator[WatchedSubject]:
    for frame in frames:
        for (kind, settings), columns in zip(relations(frame), _columns(frame), strict=True):
            if kind.lower() != FORMAT or {"value.avro.schema", "value.schema"} & settings.keys():
                continue
            if "," in settings.get("subscribe", ","):
                continue
            try:
                options = Options(settings, "source")
                if settings.get("value.format", "").lower() not in REGISTERED and not options.is_registered:
                    continue
                account = options.registry()
            except OptionError:  # values without a registry
                continue
            yield WatchedSubject(f"{settings['subscribe'].strip()}-value", account, settings, columns)
