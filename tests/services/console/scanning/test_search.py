"""Searches of a topic with hard-to-read records equal a plain loop, in order, without duplicates."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from barnabas.client.opening import ConsumedRecord
from barnabas.services.console.scanning.model import Decode, ScanBudget, Search, SearchError
from barnabas.services.console.scanning.scanner import Scanner
from barnabas.testing import EmbeddedBroker
from tests.services.console.scanning.conftest import PARTITIONS, Searcher
from tests.services.console.scanning.plain import search_plainly
from tests.tables.conftest import NOW

WHERE = (
    "",
    "record.value.amount > 20",
    "record.value.country == 'DE' && record.value.id < 300",
    "has(record.value.tags) && 'AT' in record.value.tags",
    "!has(record.value)",
    "record.headers.n == '17' || record.offset % 10 == 3",
    "record.valueAsText.contains('FR')",
)
FIND = ("", "DE", "key-3", '"id": 17', "no json", "nowhere")
REGEX = ("DE|FR", r'"id": \d\d,', r"key-[0-3]$", "^no")


@st.composite
def searches(draw: st.DrawFn) -> Search:
    regex = draw(st.booleans())
    since = draw(st.none() | st.integers(0, 600))
    first = draw(st.none() | st.integers(0, 250))
    return Search(
        topic="orders",
        find=draw(st.sampled_from(REGEX if regex else FIND)),
        regex=regex,
        ignore_case=draw(st.booleans()),
        key=draw(st.sampled_from(("", "key-7", "key-1*", "*5", "none"))),
        header=draw(st.sampled_from(("", "", "n", "n=8", "n=1*", "m", "*=23"))),
        where=draw(st.sampled_from(WHERE)),
        since=None if since is None else NOW + since * 1000,
        until=draw(st.none() | st.integers(0, 600).map(lambda at: NOW + at * 1000)),
        first_offset=first,
        until_offset=draw(st.none() | st.integers(0, 250)),
        partitions=draw(st.sampled_from(((), (0,), (1, 2)))),
        newest_first=draw(st.booleans()),
        limit=10_000,
        shown_bytes=64,
    )


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(search=searches())
@example(search=Search(topic="orders", until=NOW + 134_000, limit=10_000))
def test_search_equals_a_plain_loop(
    search: Search, searcher: Searcher, broker: EmbeddedBroker, orders: str, records: list[ConsumedRecord]
) -> None:
    hits, end = searcher.search(broker.bootstrap_servers, search)
    assert sorted((hit.partition, hit.offset) for hit in hits) == search_plainly(search, records)
    assert (end.reason, end.continue_at) == ("done", "")
    for partition in range(PARTITIONS):
        offsets = [hit.offset for hit in hits if hit.partition == partition]
        assert offsets == sorted(offsets, reverse=search.newest_first)


@pytest.mark.parametrize("newest_first", [True, False])
def test_records_of_all_partitions_come_in_the_order_of_time(
    newest_first: bool, searcher: Searcher, broker: EmbeddedBroker, orders: str, records: list[ConsumedRecord]
) -> None:
    search = Search(topic=orders, newest_first=newest_first, limit=10_000)
    hits, _ = searcher.search(broker.bootstrap_servers, search)
    times = [hit.timestamp for hit in hits]
    assert times == sorted(times, reverse=newest_first)
    assert len(hits) == len(records)


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("limit", [1, 7, 100])
def test_a_search_that_is_continued_gives_every_record_once(
    newest_first: bool,
    limit: int,
    searcher: Searcher,
    broker: EmbeddedBroker,
    orders: str,
    records: list[ConsumedRecord],
) -> None:
    search = Search(topic=orders, find="DE", newest_first=newest_first, limit=limit)
    found: list[tuple[int, int]] = []
    for _ in range(30 if limit == 1 else 1000):
        hits, end = searcher.search(broker.bootstrap_servers, search)
        found += [(hit.partition, hit.offset) for hit in hits]
        assert len(hits) <= limit
        if not end.continue_at:
            break
        assert end.reason == "limit"
        search = msgspec.structs.replace(search, continue_at=end.continue_at)
    expected = search_plainly(search, records)
    assert len(found) == len(set(found))
    assert set(found) <= set(expected) if limit == 1 else sorted(found) == expected


def test_the_first_page_is_the_newest_records_of_all_partitions(
    searcher: Searcher, broker: EmbeddedBroker, orders: str, records: list[ConsumedRecord]
) -> None:
    hits, _ = searcher.search(broker.bootstrap_servers, Search(topic=orders, limit=20))
    newest = sorted(records, key=lambda record: -record.timestamp)[:20]
    assert [(hit.partition, hit.offset) for hit in hits] == [(each.partition, each.offset) for each in newest]


def test_aborted_records_are_shown_on_request(
    searcher: Searcher, broker: EmbeddedBroker, orders: str, records: list[ConsumedRecord]
) -> None:
    hits, _ = searcher.search(broker.bootstrap_servers, Search(topic=orders, committed=False, limit=10_000))
    assert len(hits) == 600 > len(records)


@pytest.mark.parametrize("newest_first", [True, False])
def test_search_stopped_by_its_budget_reports_the_position_and_can_be_continued(
    newest_first: bool, searcher: Searcher, broker: EmbeddedBroker, orders: str, records: list[ConsumedRecord]
) -> None:
    scanner = Scanner(searcher.pool, budget=ScanBudget(records=50))
    search = Search(topic=orders, find="DE", newest_first=newest_first, limit=10_000)
    found: list[tuple[int, int]] = []
    reasons: list[str] = []
    for _ in range(100):
        hits, end = searcher.search(broker.bootstrap_servers, search, scanner)
        found += [(hit.partition, hit.offset) for hit in hits]
        reasons.append(end.reason)
        if not end.continue_at:
            break
        search = msgspec.structs.replace(search, continue_at=end.continue_at)
    assert sorted(found) == search_plainly(search, records)
    assert reasons[0] == "budget"


def test_records_after_the_requested_time_are_not_read_and_it_is_reported(
    searcher: Searcher, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("later", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for number in range(100):
        producer.produce(topic, b"x", timestamp=NOW + number * 60_000)
        assert producer.flush(30) == 0
    hits, end = searcher.search(broker.bootstrap_servers, Search(topic=topic, until=NOW + 30 * 60_000))
    assert [hit.offset for hit in hits] == list(range(29, -1, -1))
    assert end.progress.records == 35
    assert end.notes == ("65 offsets that came later were not read; empty *Until* to read them.",)


def test_an_empty_topic_has_nothing_to_find(searcher: Searcher, broker: EmbeddedBroker) -> None:
    topic = broker.create_topic("nothing-yet", partitions=4)
    hits, end = searcher.search(broker.bootstrap_servers, Search(topic=topic, find="x"))
    assert (hits, end.reason, end.progress.records) == ([], "done", 0)


def test_evaluations_that_fail_are_counted(searcher: Searcher, broker: EmbeddedBroker, orders: str) -> None:
    search = Search(topic=orders, where="record.value.amount / 0 > 1")
    hits, end = searcher.search(broker.bootstrap_servers, search)
    assert (hits, end.progress.failures > 0, bool(end.progress.failure)) == ([], True, True)


@pytest.mark.parametrize(
    ("search", "field"),
    [
        (Search(topic="orders", find="(", regex=True), "find"),
        (Search(topic="orders", where="record.value."), "where"),
        (Search(topic="orders", where="x" * 5000), "where"),
        (Search(topic="orders", limit=0), "limit"),
        (Search(topic="orders", partitions=(9,)), "partitions"),
        (Search(topic="orders", continue_at="!!"), "continue_at"),
        (Search(topic="orders", continue_at="kwEC"), "continue_at"),
        (Search(topic="orders", key="k" * 5000), "key"),
    ],
)
def test_a_search_that_cannot_be_done_names_the_field(
    search: Search, field: str, searcher: Searcher, broker: EmbeddedBroker, orders: str
) -> None:
    with pytest.raises(SearchError) as error:
        searcher.search(broker.bootstrap_servers, search)
    assert error.value.field == field


def test_values_are_shown_in_the_requested_format(
    searcher: Searcher, broker: EmbeddedBroker, orders: str, records: list[ConsumedRecord]
) -> None:
    raw = {(record.partition, record.offset): record.value for record in records}
    for how in Decode:
        hits, _ = searcher.search(
            broker.bootstrap_servers, Search(topic=orders, decode=how, limit=10_000, shown_bytes=1 << 20)
        )
        for hit in hits:
            _check(hit.value.format, hit.value.text, raw[hit.partition, hit.offset], how)


def _check(form: str, text: str, raw: bytes | None, how: Decode) -> None:
    if raw is None:
        assert form == "null"
    elif form == "hex":
        assert bytes.fromhex(text) == raw
    else:
        assert text == raw.decode("utf-8", "replace")
        assert form in (("text",) if how is Decode.TEXT else ("json", "text"))


def test_a_window_of_records_of_very_different_sizes_loses_nothing(
    searcher: Searcher, broker: EmbeddedBroker
) -> None:
    topic = broker.create_topic("sizes", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for number in range(40):
        producer.produce(topic, b"%d " % number + b"x" * (10 if number % 7 else 400_000), partition=0)
        assert producer.flush(30) == 0
    hits, end = searcher.search(broker.bootstrap_servers, Search(topic=topic, limit=100))
    assert [hit.offset for hit in hits] == list(range(39, -1, -1))
    assert all(hit.value.cut == (hit.value.size > 1024) for hit in hits)
    assert end.reason == "done"
    assert list(itertools.islice((hit.value.size for hit in hits), 2)) == [13, 13]
