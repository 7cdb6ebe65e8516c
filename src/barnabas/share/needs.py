"""Parts of the broker, and of group configs, that share partitions use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import Clock, Timers
from barnabas.replication import ColdReads
from barnabas.share.record_reader import RecordReaderNeeds


class ShareGroupConfigs(Protocol):
    """Configs of a group."""

    def value(self, group_id: str, name: str) -> Any: ...

    def milliseconds(self, group_id: str, name: str) -> int: ...


class SharePartitionNeeds(RecordReaderNeeds, Protocol):
    """Parts of the broker that share partitions use."""

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
