"""Scrape Prometheus pages in threads, so that a slow program does not block the agent."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlsplit

from barnabas.common.http_client import fetch
from barnabas.common.safe_logging import safe_logger
from barnabas.services.ingest.host.counters import Counters, parse_counters, rates

TIMEOUT = 10.0
MAX_BYTES = 16 * 1024 * 1024
_logger = safe_logger(__name__)


class MetricsPage(NamedTuple):
    """URL of a Prometheus page and the service it belongs to."""

    service: str
    url: str


class PageError(Exception):
    """Failed to scrape a page; the message is the reason."""


def page_of(text: str, service: str) -> MetricsPage:
    """Parse `http://...` or `NAME=http://...`; ValueError for anything else."""
    name, equals, url = text.partition("=") if not text.startswith("http") else ("", "", text)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(
            f"{text!r} is no page; write http://127.0.0.1:9100/metrics or checkout=http://127.0.0.1:8000/metrics"
        )
    return MetricsPage(name if equals else service, url)


class Look(NamedTuple):
    at: float
    counters: Counters


def read_page(url: str) -> Look:
    """Scrape a page. Bypasses proxies: the address may be reachable from this machine only."""
    headers = {"Accept": "text/plain;version=0.0.4"}
    try:
        response = fetch(url, headers=headers, timeout=TIMEOUT, max_bytes=MAX_BYTES).raise_for_status()
    except (OSError, ValueError) as error:
        raise PageError(str(error)) from None
    return Look(time.monotonic(), parse_counters(response.body.decode(errors="replace")))


class Pages:
    """Scrapes in the background: `ask` starts scrapes, `answers` returns the rates of completed ones."""

    def __init__(self, pages: list[MetricsPage]) -> None:
        self._pages = pages
        self._last: dict[MetricsPage, Look] = {}
        self._asked: dict[MetricsPage, Future[Look]] = {}
        self._silent: set[MetricsPage] = set()
        self._threads = ThreadPoolExecutor(min(8, len(pages)), "pages") if pages else None
        self.failures = 0

    def ask(self) -> None:
        for page in self._pages:
            if page not in self._asked and self._threads is not None:
                self._asked[page] = self._threads.submit(read_page, page.url)

    def answers(self) -> list[tuple[MetricsPage, dict[str, float]]]:
        found = []
        for page in [page for page, asked in self._asked.items() if asked.done()]:
            look, before = self._taken(page), self._last.get(page)
            if look is None:
                continue
            self._last[page] = look
            if before is not None and look.at > before.at:
                found.append((page, rates(before.counters, look.counters, look.at - before.at)))
        return found

    def _taken(self, page: MetricsPage) -> Look | None:
        try:
            look = self._asked.pop(page).result()
        except PageError as error:
            self.failures += 1
            if page not in self._silent:
                _logger.warning("%s has no counters for us, and is asked again: %s", page.url, error)
                self._silent.add(page)
            return None
        self._silent.discard(page)
        return look

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
