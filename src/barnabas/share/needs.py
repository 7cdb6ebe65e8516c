"""What share partitions need of the broker, and of the settings of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from barnabas.common.clock import Clock, Timers
from barnabas.cluster.image import MetadataImage
from barnabas.share.record_reader import Threads
from barnabas.replication.page_cache import ColdReads


class GroupConfigs(Protocol):
    """Settings of a single group."""

    def value(self, group_id: str, name: str) -> Any: ...

    def milliseconds(self, group_id: str, name: str) -> int: ...


class Host(Threads, Protocol):
    """What is needed from the broker."""

    @property
    def clock(self) -> Clock: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def call_soon(self) -> Callable[[Callable[[], None]], object]: ...

    @property
    def image(self) -> MetadataImage: ...

    @property
    def is_fenced(self) -> bool: ...

    @property
    def page_cache(self) -> ColdReads: ...
