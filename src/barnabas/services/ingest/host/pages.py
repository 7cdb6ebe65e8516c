"""Scrape Prometheus pages in threads, so that a slow program does not block the agent."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlsplit

from barnabas.common.http_client import fetch
from barnabas.common.safe_logging import safe_logger

# -- Parse counters of a Prometheus page and compute rates between two scrapes. Pure -------------------

Counters = dict[tuple[str, str], float]
"""Values by metric name and label text."""
COUNTED = ("_count", "_sum")
"""Suffixes of the counters of a histogram or summary: number and sum of observations."""


def parse_counters(page: str) -> Counters:
    """Parse all counters of a page; skip malformed lines."""
    kinds: dict[str, str] = {}
    found: Counters = {}
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            words = line.split()
            if len(words) == 4:
                kinds[words[2]] = words[3]
        elif line and not line.startswith("#"):
            name, labels, value = _sample(line)
            if value is not None and _is_counter(name, kinds):
                found[name, labels] = value
    return found


def _sample(line: str) -> tuple[str, str, float | None]:
    if "{" in line:
        end = line.rfind("}")
        name, _, labels = line[:end].partition("{")
        rest = line[end + 1 :].split()
    else:
        name, labels, rest = line.split()[0], "", line.split()[1:]
    try:
        return name, labels, float(rest[0])
    except (IndexError, ValueError):
        return name, labels, None


def _is_counter(name: str, kinds: Mapping[str, str]) -> bool:
    kind = kinds.get(name) or kinds.get(name.removesuffix("_total"))  # OpenMetrics omits the suffix in TYPE
    if kind is not None:
        return kind == "counter"
    for ending in COUNTED:
        if name.endswith(ending):
            return kinds.get(name.removesuffix(ending)) in ("histogram", "summary")
    return name.endswith("_total")


def rates(before: Counters, now: Counters, seconds: float) -> dict[str, float]:
    """Return rates per second by metric, summed over its labels. A counter that decreased was reset to zero."""
    found: dict[str, float] = defaultdict(float)
    for series, value in now.items():
        if series not in before:
            continue
        grown = value - before[series]
        found[series[0]] += (grown if grown >= 0 else value) / seconds
    return {name: round(rate, 3) for name, rate in sorted(found.items())}


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
            f"not a valid metrics page: {text!r} (examples: http://127.0.0.1:9100/metrics, "
            "checkout=http://127.0.0.1:8000/metrics)"
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
        for page in [page for page, requested in self._asked.items() if requested.done()]:
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
                _logger.warning("cannot scrape %s; retrying: %s", page.url, error)
                self._silent.add(page)
            return None
        self._silent.discard(page)
        return look

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
