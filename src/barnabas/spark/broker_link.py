"""A synchronous wrapper of `barnabas.client` for Spark's Python workers, which have no event loop.

link = link_to("127.0.0.1:9092")
topics = link.run(link.client.topics(["orders"]))

A worker runs one task at a time and many in its life, so there is one loop per process, driven by the caller, and
connections stay open between tasks. No thread: while a task decodes a response, the response to its next request
arrives in the socket. Links are stored by process id, because workers are forked and a child must not use its parent's
connections.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from barnabas.client import REQUEST_TIMEOUT, TOTAL_TIMEOUT, Client, is_retriable
from barnabas.client.retry import RetryPolicy, retry
from barnabas.client.security import PLAINTEXT, ClientSecurity
from barnabas.common.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

T = TypeVar("T")


class BrokerLink:
    """A client and its event loop. Not thread-safe."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "barnabas-spark",
        request_timeout: float = REQUEST_TIMEOUT,
        total_timeout: float = TOTAL_TIMEOUT,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.client = Client(
            bootstrap,
            client_id=client_id,
            request_timeout=request_timeout,
            total_timeout=total_timeout,
            security=security,
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its result. Background tasks continue at the next call."""
        return self.loop.run_until_complete(work)

    def persist(self, attempt: Callable[[], Coroutine[Any, Any, T]], timeout: float) -> T:
        """Retry for `timeout` seconds while brokers are unavailable or leaders change."""

        waiting = RetryPolicy(timeout, may_pass)

        async def tell(error: Exception) -> None:
            log.warning("retrying for %.0f s: %s", waiting.deadline.remaining, error)

        return self.run(retry(attempt, waiting, tell))

    def close(self) -> None:
        self.run(self.client.close())
        self.loop.close()


def may_pass(error: Exception) -> bool:
    """True if the same request may succeed later. A missing topic is not retriable."""
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    if isinstance(error, KafkaError) and error.code in unknown:
        return False
    return is_retriable(error)


_links: dict[tuple[int, tuple[tuple[str, Any], ...]], BrokerLink] = {}


def link_to(bootstrap: str, **settings: Any) -> BrokerLink:
    """Return the link of this process to a cluster, with BrokerLink's settings; created once and kept."""
    key = (os.getpid(), tuple(sorted({**settings, "bootstrap": bootstrap}.items())))
    link = _links.get(key)
    if link is None:
        link = _links[key] = BrokerLink(bootstrap, **settings)
    return link


def close_link(bootstrap: str, **settings: Any) -> None:
    """Close a link of `link_to`, in a process that does not need it again."""
    link = _links.pop((os.getpid(), tuple(sorted({**settings, "bootstrap": bootstrap}.items()))), None)
    if link is not None:
        link.close()
