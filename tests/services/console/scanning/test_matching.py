"""Batches of any records and codecs, with gaps: columns match the same records as a plain loop."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.client.offsets import OffsetRange
from barnabas.client.opening import ConsumedRecord
from barnabas.client.range_fetcher import FetchedRange
from barnabas.common.types import TopicPartition
from barnabas.records.builder import build_batch
from barnabas.records.columnar.plan import plan_batches
from barnabas.records.record import Record
from barnabas.services.console.scanning.continuation import decode_positions, encode_positions
from barnabas.services.console.scanning.merging import HitMerge
from barnabas.services.console.scanning.messages import Range, ScanHits
from barnabas.services.console.scanning.model import CUT_BYTES, WHOLE_BYTES, Hit, Search, ShownValue
from barnabas.services.console.scanning.worker.reader import FetchedSection, ScanWindow
from barnabas.services.console.scanning.worker.searching import Looker
from barnabas.services.console.scanning.worker.showing import Viewer
from tests.services.console.scanning.plain import search_plainly

TP = TopicPartition("t", 0)
TEXTS = ("a", "ä", "\\u00e4", "\U0001f600", '"', "\\", "\n", "ab", "é*", "=")

texts = st.lists(st.sampled_from(TEXTS), max_size=4).map("".join)
objects = st.builds(
    lambda fields, ascii_only: json.dumps(fields, ensure_ascii=ascii_only).encode(),
    st.dictionaries(st.sampled_from(("a", "b", "ä")), texts | st.integers(-3, 3) | st.none(), max_size=3),
    st.booleans(),
)
data = st.none() | texts.map(str.encode) | objects | st.binary(max_size=6)
headers = st.lists(st.tuples(st.sampled_from(("h", "é", "")), data), max_size=3).map(tuple)
records = st.lists(st.tuples(data, data, headers), min_size=1, max_size=8)
batches = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), records), min_size=1, max_size=4)
searches = st.builds(
    lambda find, case, key, header, where: Search(
        topic="t", find=find, ignore_case=case, key=key, header=header, where=where, limit=1000
    ),
    st.just("") | texts,
    st.just(False),
    st.just("") | texts,
    st.sampled_from(("", "", "h", "h=a*", "é", "*=ä", "h=")),
    st.sampled_from(
        ("", "record.value.a == 'ä'", "record.value.b in ['a', 'ab']", "record.valueAsText.contains('a')",
         "record.keyAsText == 'a'", "has(record.value.a) && record.value.a > 0", "record.value['ä'].startsWith('a')",
         "record.headers.h == 'a' || record.offset > 5")
    ),
)  # fmt: skip


def log_of(made: list[Any]) -> tuple[bytes, list[ConsumedRecord], int]:
    """The bytes of batches with gaps between them, the records in them, and the end of it all."""
    log, found, offset = b"", [], 0
    for gap, codec, rows in made:
        offset += gap
        batch = [Record(offset + at, 1000 + offset + at, *row) for at, row in enumerate(rows)]
        log += bytes(build_batch(batch, compression=codec, base_offset=offset))
        found += [ConsumedRecord("t", 0, *record) for record in batch]
        offset += len(rows)
    return log, found, offset


@settings(max_examples=100)
@given(batches, searches)
@example([(0, 0, [(b"\xff", b"\xffab\x00", ())])], Search(topic="t", find="ab", limit=1000))
@example([(0, 0, [(None, None, (("h", None),))])], Search(topic="t", header="h=", limit=1000))
def test_columns_match_the_same_rows_as_a_plain_loop(made: list[Any], search: Search) -> None:
    log, plain, end = log_of(made)
    section = FetchedSection(TP, 0, end, plan_batches(memoryview(log), 0, end))
    looker = Looker(search, None)
    hits = [hit for part in section.parts() for hit in looker._find(part, 0, 1000).hits]
    assert [(hit.partition, hit.offset) for hit in hits] == search_plainly(search, plain)


@given(batches, st.integers(0, 30))
def test_windows_give_every_record_once_from_the_newest_to_the_oldest(made: list[Any], lowest: int) -> None:
    log, plain, end = log_of(made)
    looker = Looker(Search(topic="t", limit=1000), None)
    found: list[int] = []
    window = ScanWindow(OffsetRange(TP, min(lowest, end), end))
    window._offsets = 2  # the first ones small, so that there are some
    window.first = max(min(lowest, end), end - 2)
    while not window.is_done:
        planned = plan_batches(memoryview(log), window.first, window.until)
        inside: list[int] = []
        if planned.batches:
            section = window.take(FetchedRange(TP, window.first, window.until, planned))
            for part in section.parts():
                inside += [hit.offset for hit in looker._find(part, 0, 1000).hits]
        found += reversed(inside)
        window.advance()
    assert found == [record.offset for record in reversed(plain) if record.offset >= lowest]


@given(st.dictionaries(st.integers(0, 5000), st.integers(0, 1 << 62), max_size=20))
def test_places_go_through_an_address_and_back(places: dict[int, int]) -> None:
    word = encode_positions(places)
    assert word.replace("-", "").replace("_", "").isalnum() or not word
    assert (decode_positions(word) if word else {}) == places


steps = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 3)), max_size=12)


@given(steps, st.booleans(), st.integers(1, 10))
def test_hits_are_given_out_in_the_order_of_time_and_each_once(
    steps: list[Any], newest: bool, limit: int
) -> None:
    """Partitions are read in any order; early results are never revoked."""
    size = 20
    merge = HitMerge([Range(partition, 0, size) for partition in range(3)], newest_first=newest)
    at = dict.fromkeys(range(3), size if newest else 0)
    given_out: list[Hit] = []
    every = 0
    for partition, width, count in steps:
        here = at[partition]
        there = max(0, here - width) if newest else min(size, here + width)
        offsets = range(here - 1, there - 1, -1) if newest else range(here, there)
        hits = [
            Hit(partition, offset, offset, ShownValue("null"), ShownValue("null"))
            for offset in list(offsets)[:count]
        ]
        every += len(hits)
        at[partition] = there
        merge.add(ScanHits(0, hits, {partition: there}, {partition: there if newest else there - 1}, 0, 0))
        given_out += merge.ready(limit - len(given_out))
    given_out += merge.ready(limit - len(given_out), all_of_them=True)
    places = [(hit.partition, hit.offset) for hit in given_out]
    assert len(places) == len(set(places)) == min(limit, every)
    for partition in range(3):
        settings = [offset for one, offset in places if one == partition]
        assert settings == sorted(settings, reverse=newest)
    if all(end == (0 if newest else size) for end in at.values()) and every <= limit:
        assert [hit.timestamp for hit in given_out] == sorted(
            (hit.timestamp for hit in given_out), reverse=newest
        )
        assert merge.continue_at == ""


def test_a_value_above_a_mebibyte_is_cut_and_a_smaller_one_is_not() -> None:
    viewer = Viewer(Search(topic="t", shown_bytes=WHOLE_BYTES, with_hex=True), None)
    large = viewer.show(b"x" * (WHOLE_BYTES + 1))
    assert (large.cut, len(large.text), large.size, len(large.hex)) == (
        True,
        CUT_BYTES,
        WHOLE_BYTES + 1,
        2 * CUT_BYTES,
    )
    small = viewer.show(b"x" * WHOLE_BYTES)
    assert (small.cut, len(small.text)) == (False, WHOLE_BYTES)
    bad = viewer.show(b"\xff" * 10)
    assert (bad.format, bad.cut, bad.text) == ("hex", False, " ".join(["ff"] * 10))


def test_the_console_itself_imports_no_columns() -> None:
    """They are 200 MB, and belong to the search processes."""
    imported = "barnabas.services.console.pages.records.listing"
    program = f"import sys, {imported}; print({{'pyarrow', 'numba'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
