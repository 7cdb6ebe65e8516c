"""A synchronous wrapper of an object store for Spark's driver and its Python workers, like `broker_link` for brokers.

One per process, with its loop; requests continue in other threads while a task decodes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from barnabas.common.clock import SystemClock
from barnabas.spark.errors import SourceError
from barnabas.spark.remote_settings import RemoteSettings, in_options_words
from barnabas.tiering.reading import StoreReader
from barnabas.tiering.stores import StoreError

T = TypeVar("T")


class StoreLink:
    """Not for several threads at once."""

    def __init__(self, settings: RemoteSettings) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = settings.open()
        self.reader = StoreReader(self.store, SystemClock())
        self._url = settings.url

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its result. SourceError, in terms of options, if the store lacks the data."""
        try:
            return self.loop.run_until_complete(work)
        except StoreError as error:
            problem = in_options_words(error.message)
        raise SourceError(f"{self._url}: {problem}")

    def close(self) -> None:
        self.run(self.store.close())
        self.loop.close()


_links: dict[tuple[int, RemoteSettings], StoreLink] = {}


def store_link(settings: RemoteSettings) -> StoreLink:
    """The link of this process to a store; created once and kept."""
    key = os.getpid(), settings
    link = _links.get(key)
    if link is None:
        link = _links[key] = StoreLink(settings)
    return link
