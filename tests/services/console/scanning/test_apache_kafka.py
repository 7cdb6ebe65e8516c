"""The same search on Apache Kafka: codecs, aborted transactions, bad bytes, both orders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.services.console.scanning.model import Search
from tests.services.console.scanning.conftest import Searcher, as_record
from tests.services.console.scanning.plain import search_plainly
from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.jars import requires_java
from tests.tables.conftest import fill, poll_all

pytestmark = requires_java


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), heap="256m") as running:
        yield running


def test_search_in_apache_kafka_equals_a_plain_loop(searcher: Searcher, kafka: ApacheKafka) -> None:
    fill(kafka, "orders", 1, 300)
    records = [as_record(message) for message in poll_all(kafka, "orders", 1)]
    searches = [
        Search(topic="orders", find="DE", limit=1000),
        Search(topic="orders", where="record.value.amount > 20", limit=1000, newest_first=False),
        Search(topic="orders", key="key-1*", header="n", limit=1000),
        Search(topic="orders", limit=1000),
    ]
    for search in searches:
        hits, end = searcher.search(kafka.bootstrap_servers, search)
        assert sorted((hit.partition, hit.offset) for hit in hits) == search_plainly(search, records)
        assert end.reason == "done"
