"""A search returns the same lines as a plain loop."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.cluster import Client
from barnabas.common.types import TopicPartition
from barnabas.services.console.logs.archive import LogArchive, LogSearchResult
from barnabas.services.console.logs.columns import LEVELS
from barnabas.services.console.logs.query import Cursor, LineFilter, Term, quoted, read_cursor, read_text
from barnabas.services.console.logs.service import LogTopics
from barnabas.services.console.logs.store import LogStore
from tests.services.console.logs.making import NOW_MS, TP, store_of

WORDS = ("ERROR", "info", "INFO", "Pay", "pay.", "x*", "\t", "\\", '"', "[warn]", "a(b", "\N{BELL}", "\0")
LINES = st.lists(
    st.lists(st.sampled_from(WORDS) | st.binary(max_size=1), max_size=5).map(
        lambda parts: b" ".join(part.encode() if isinstance(part, str) else part for part in parts)
    ),
    max_size=60,
)


@contextmanager
def archive_of(store: LogStore) -> Iterator[LogArchive]:
    """One that is not connected to anything."""
    archive = LogArchive(Client("127.0.0.1:1"), store.folder / "unused", LogTopics())
    archive.store.close()
    archive.store = store
    try:
        yield archive
    finally:
        archive.close()


def search(store: LogStore, wanted: LineFilter, **settings: Any) -> LogSearchResult:
    with archive_of(store) as archive:
        return asyncio.run(archive.search(wanted, **settings))


@settings(max_examples=60, deadline=None)
@given(LINES, st.lists(st.sampled_from(WORDS), max_size=3), st.integers(1, 30), st.booleans())
def test_all_words_are_found_as_a_plain_loop_finds_them(
    lines: list[bytes], words: list[str], chunk_rows: int, without: bool
) -> None:
    terms = tuple(Term(quoted(word), not without) for word in words)
    patterns = [re.compile(re.escape(word.encode()), re.IGNORECASE) for word in words]
    expected = [
        number
        for number, line in enumerate(lines)
        if all((pattern.search(line) is None) == without for pattern in patterns)
    ]
    with TemporaryDirectory() as folder:
        found = search(store_of(Path(folder), lines, chunk_rows), LineFilter(terms), limit=1000)

    assert [line.offset for line in found.lines] == expected[::-1]
    assert found.matched == len(expected) == sum(bar.total for bar in found.bars)
    assert (found.scanned, found.total, found.complete) == (len(lines), len(lines), True)
    levels = Counter(line.level for line in found.lines)
    assert {facet.value: facet.count for facet in found.facets["level"]} == levels
    assert sum((Counter(bar.counts) for bar in found.bars), Counter()) == levels


def test_case_is_ignored_in_every_language(tmp_path: Path) -> None:
    store = store_of(tmp_path, [text.encode() for text in ("DÉJÀ vu", "déjà", "ДЕЛО", "deja")], 2)
    with archive_of(store) as archive:
        french = asyncio.run(archive.search(LineFilter(read_text("Déjà", is_pattern=False))))
        russian = asyncio.run(archive.search(LineFilter(read_text("дело", is_pattern=False))))
    assert [line.message for line in french.lines] == ["déjà", "DÉJÀ vu"]
    assert [line.message for line in russian.lines] == ["ДЕЛО"]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=15, max_size=40), st.integers(1, 20), st.integers(1, 9))
def test_pages_put_together_are_all_lines_newest_first(
    seconds: list[int], chunk_rows: int, limit: int
) -> None:
    lines = [b"2026-10-01T12:00:0%dZ line" % second for second in seconds]
    expected = sorted(((second, number) for number, second in enumerate(seconds)), reverse=True)
    with TemporaryDirectory() as folder, archive_of(store_of(Path(folder), lines, chunk_rows)) as archive:
        found: list[int] = []
        cursor: Cursor | None = None
        while True:
            page = asyncio.run(archive.search(LineFilter(), limit, cursor))
            found += [line.offset for line in page.lines]
            assert page.matched == len(lines)
            if not page.older:
                break
            cursor = read_cursor(page.older)
    assert found == [number for _, number in expected]


def test_levels_names_and_times_narrow_a_search(tmp_path: Path) -> None:
    lines = [
        b"2026-10-01T12:00:%02dZ %s x" % (number % 60, (b"ERROR", b"INFO")[number % 2])
        for number in range(50)
    ]
    store = store_of(tmp_path, lines, 10)
    start = 1_790_856_000_000
    wanted = LineFilter(
        levels=frozenset({LEVELS.index("error")}),
        names={"host": frozenset({"web-1", "other"})},
        since=start + 10_000,
        until=start + 20_000,
    )
    with archive_of(store) as archive:
        found = asyncio.run(archive.search(wanted))
        nothing = asyncio.run(archive.search(LineFilter(names={"service": frozenset({"nobody"})})))

    assert [line.offset for line in found.lines] == [18, 16, 14, 12, 10]
    assert (found.bars[0].start, found.width, len(found.bars)) == (start + 10_000, 1000, 10)
    assert (nothing.matched, nothing.lines, nothing.facets["host"]) == (0, [], [])


def test_the_lines_around_one_are_of_the_same_file(tmp_path: Path) -> None:
    store = store_of(tmp_path, [b"line %d" % number for number in range(40)], 10)
    with archive_of(store) as archive:
        found = asyncio.run(archive.surroundings(TP, 20, 3))
        edge = asyncio.run(archive.surroundings(TP, 0, 3))
        missing = asyncio.run(archive.surroundings(TopicPartition("app.logs", 5), 20, 3))
    assert missing is None
    assert found is not None
    assert edge is not None
    assert [line.offset for line in (*found.before, found.line, *found.after)] == list(range(17, 24))
    assert [line.offset for line in (*edge.before, edge.line, *edge.after)] == [0, 1, 2, 3]


def test_search_that_times_out_reports_it(tmp_path: Path) -> None:
    with archive_of(store_of(tmp_path, [b"line"] * 50, 10)) as archive:
        archive._budget = -1.0
        found = asyncio.run(archive.search(LineFilter()))
    assert not found.complete
    assert found.scanned < found.total == 50


def test_search_without_a_waiting_client_ends(tmp_path: Path) -> None:
    async def give_up(archive: LogArchive) -> None:
        searching = asyncio.create_task(archive.search(LineFilter(read_text("line", is_pattern=False))))
        await asyncio.sleep(0)
        searching.cancel()
        await asyncio.wait([searching])
        assert searching.cancelled() or searching.done()
        assert (await archive.search(LineFilter())).matched == 50  # the threads are free

    with archive_of(store_of(tmp_path, [b"line"] * 50, 1)) as archive:
        asyncio.run(give_up(archive))


def test_a_time_beyond_all_others_does_not_make_a_histogram_of_years(tmp_path: Path) -> None:
    lines = [b"1970-01-01T00:00:01Z x", b"now"]
    found = search(store_of(tmp_path, lines, 10), LineFilter())
    assert found.matched == 2
    assert 0 < len(found.bars) <= 60
    assert max(bar.start for bar in found.bars) <= NOW_MS + 1000
