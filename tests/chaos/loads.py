"""Producers that continue under all faults, and a record of their acknowledgements."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from itertools import pairwise
from types import TracebackType
from typing import ClassVar, Self

from barnabas.testing.client_settings import ClientSettings

PARTITIONS = 3
DELIVERY_MS = 60_000
PACE = (
    0.002  # seconds between records: enough of them to notice a loss, few enough to leave the brokers a core
)


class Load:
    """`acknowledged` by partition; `unknown` may exist; `aborted` must not. Values grow in the order of sending.
    `acks` are the acknowledgement times by partition, which show outages. A subclass writes with its client, in a
    thread, until it is stopped."""

    client: ClassVar[str]
    kind: ClassVar[str]

    def __init__(self, clients: ClientSettings, topic: str) -> None:
        self.acknowledged: dict[int, list[int]] = defaultdict(list)
        self.unknown: set[int] = set()
        self.aborted: set[int] = set()
        self.acks: dict[int, list[float]] = defaultdict(list)
        self.failure: BaseException | None = None
        self._clients = clients
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self.asked_to_stop()
        self._thread.join(2 * DELIVERY_MS / 1000)
        if self._thread.is_alive():
            self.kill()
            raise AssertionError("the producer cannot finish")
        if self.failure is not None and kind is None:
            raise self.failure

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self.failure = error

    def run(self) -> None:
        """Write until `_stop` is set, and finish the current transaction."""
        raise AssertionError("a load says what it does")

    def asked_to_stop(self) -> None:
        """For clients that do not check `_stop`."""

    def kill(self) -> None:
        """For clients that are processes, and do not end."""

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def longest_gap(self, since: float, until: float) -> float:
        """The longest time within which some partition acknowledged nothing."""
        longest = 0.0
        for timestamps in self.acks.values():
            marks = [
                since,
                *(timestamp for timestamp in list(timestamps) if since <= timestamp <= until),
                until,
            ]
            longest = max(longest, *(later - earlier for earlier, later in pairwise(marks)))
        return longest

    def _acknowledge(self, value: int, partition: int) -> None:
        self.acknowledged[partition].append(value)
        self.acks[partition].append(time.monotonic())
