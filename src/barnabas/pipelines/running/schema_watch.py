"""Schemas of a registry that streams are planned with: a running pipeline is planned again when one of them changes.

A source takes its columns from the newest schema when it is planned. Values of later versions are then read with the
columns of that one, until the flow is planned again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pyspark.sql import DataFrame

from barnabas.client import ClientError
from barnabas.client.schemas import RegistryAccount
from barnabas.common.durations import seconds_of
from barnabas.pipelines.running.broker_checks import relations
from barnabas.pipelines.running.sessions import FORMAT
from barnabas.spark import OptionError, Options

logger = logging.getLogger(__name__)

REGISTERED = ("avro", "protobuf")
TIMEOUT = 5.0  # seconds: the loop of the runner waits meanwhile


class WatchedSubject(NamedTuple):
    name: str
    account: RegistryAccount


class SchemaWatch:
    """Compares the newest schemas with those of the last call. Not thread-safe."""

    def __init__(self, frames: Iterable[DataFrame], every: str | None) -> None:
        """`every` is the interval of the setting `schema_refresh`; without it nothing is asked."""
        self._seconds = 0.0 if every is None else seconds_of(every)
        found = {} if every is None else {subject.name: subject for subject in _subjects(frames)}
        self._subjects = list(found.values())
        self._seen = self._newest()
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


def _subjects(frames: Iterable[DataFrame]) -> Iterator[WatchedSubject]:
    for frame in frames:
        for kind, given in relations(frame):
            if kind.lower() != FORMAT or given.get("value.format", "").lower() not in REGISTERED:
                continue
            if "value.avro.schema" in given or "," in given.get("subscribe", ","):
                continue
            try:
                account = Options(given, "source").registry()
            except OptionError:  # values without a registry
                continue
            yield WatchedSubject(f"{given['subscribe'].strip()}-value", account)
