"""Bulk requests to a busy, slow or failing server: each document is written once or rejected by name."""

import json
import random
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.common.http_client import HttpSession
from barnabas.connect.endpoints import ConnectorContext
from barnabas.connect.http_address import HttpAddress
from barnabas.connect.sinks.opensearch.bulk import BulkError, Document, bodies, understand
from barnabas.connect.sinks.opensearch.sending import BulkSender, ProgressTimeout
from barnabas.connect.sinks.opensearch.sink import OpenSearchSink, TopicGuard, TopicIdentity
from barnabas.spark.errors import PipelineError
from barnabas.testing import EmbeddedBroker
from tests.connect.sinks.bulk_server import (
    BulkServer,
    busy,
    cut_after,
    cut_before,
    half_an_answer,
    running_bulk_server,
)
from tests.connect.support import connector, consume, headers_of, produce, run_once
from tests.support.certificates import Authority

FAULTS = [busy, cut_before, cut_after, half_an_answer]


@pytest.fixture
def search() -> Iterator[BulkServer]:
    with running_bulk_server() as server:
        yield server


@pytest.fixture
def server(search: BulkServer) -> Iterator[HttpSession]:
    connected = HttpAddress(search.url, timeout=5).session()
    yield connected
    connected.close()


def sender(server: HttpSession, max_bytes: int = 100_000, seconds: float = 30) -> BulkSender:
    return BulkSender(server, max_bytes, ProgressTimeout(seconds, sleep=lambda _: None))


def document(row: int, name: str = "", version: int | None = None, **fields: object) -> Document:
    body = json.dumps({"row": row, **fields}).encode()
    return Document(row, "orders", name or f"d{row}", row if version is None else version, body)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_that_fails_is_sent_again_and_leaves_each_document_once(
    search: BulkServer, server: HttpSession, fault: object
) -> None:
    search.faults = [fault, fault]  # type: ignore[list-item]
    assert sender(server).send([document(row) for row in range(20)]) == []
    assert search.bodies("orders") == {f"d{row}": {"row": row} for row in range(20)}


def test_a_server_over_tls_is_trusted_by_its_authority_and_by_no_other(tmp_path: Path) -> None:
    authority, ca = Authority(), tmp_path / "ca.pem"
    ca.write_text(authority.pem)
    signed = authority.sign("search", "127.0.0.1")
    (tmp_path / "search.pem").write_text(signed.certificate_pem + signed.key_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "search.pem")
    with running_bulk_server(context) as search:
        sink = OpenSearchSink(url=search.url, index="orders", ca=str(ca))
        with closing(sink.address().session()) as trusting:
            assert sender(trusting).send([document(row) for row in range(5)]) == []
        assert len(search.bodies("orders")) == 5
        stranger = OpenSearchSink(url=search.url, index="orders")
        with (
            closing(stranger.address().session()) as wary,
            pytest.raises(BulkError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            sender(wary, seconds=0).send([document(9)])


def test_only_documents_that_the_server_was_too_busy_for_are_sent_again(
    search: BulkServer, server: HttpSession
) -> None:
    search.busy_items = [{"d1", "d3"}, {"d3"}]
    sending = sender(server)
    assert sending.send([document(row) for row in range(5)]) == []
    assert (sending.written, sending.known, len(search.requests)) == (5, 0, 3)


def test_newest_version_stays_after_a_resend(search: BulkServer, server: HttpSession) -> None:
    changes = [document(row, name=f"k{row % 7}", version=row) for row in range(100)]
    rng = random.Random(1)
    for _ in range(10):
        start = rng.randrange(90)
        search.faults = rng.choices([*FAULTS, lambda *_: False], k=2)
        sender(server, max_bytes=600).send(changes[start:])
    sender(server).send(changes)
    assert search.bodies("orders") == {f"k{row % 7}": {"row": row} for row in range(93, 100)}


def test_refused_documents_come_back_with_the_servers_reason(search: BulkServer, server: HttpSession) -> None:
    nameless = Document(2, "orders", "", 2, b"{}")
    refused = sender(server).send(
        [document(0), document(1, amount="much"), nameless, document(3, name="x" * 600)]
    )
    reasons = {one.row: one.reason for one in refused}
    assert set(reasons) == {1, 2, 3}
    assert reasons[1] == "mapper_parsing_exception: [amount] is no number"
    assert "no key" in reasons[2]
    assert "longer than 512" in reasons[3]
    assert set(search.bodies("orders")) == {"d0"}


def test_bodies_are_bounded_and_oversized_ones_are_rejected(search: BulkServer, server: HttpSession) -> None:
    search.largest = 3_000
    documents = [document(row, text="x" * 500) for row in range(20)] + [document(20, text="x" * 5_000)]
    (refused,) = sender(server, max_bytes=4_000).send(documents)
    assert (refused.row, "too large for the server" in refused.reason) == (20, True)
    assert len(search.bodies("orders")) == 20
    assert max(len(body) for _, body in bodies(documents[:20], 2_000)) <= 2_000


def test_a_server_that_takes_nothing_for_long_stops_the_connector(
    search: BulkServer, server: HttpSession
) -> None:
    search.faults = [busy] * 1000
    with pytest.raises(BulkError, match=r"no document for 0 seconds \(status 429\).*not written twice"):
        sender(server, seconds=0).send([document(1)])


def test_denied_user_gets_a_message_with_the_required_rights(search: BulkServer, server: HttpSession) -> None:
    search.faults = [lambda handler, _: handler.answer(401, {}) is None]  # type: ignore[func-returns-value]
    with pytest.raises(BulkError, match=r"check `user`.*rights.*write.*create_index"):
        sender(server).send([document(1)])
    error = {"type": "security_exception", "reason": "no permissions"}
    denied = {"items": [{"index": {"status": 403, "error": error}}]}
    with pytest.raises(BulkError, match=r"no permissions.*write"):
        understand([document(1)], json.dumps(denied).encode())


@pytest.mark.parametrize(
    "text", [b"", b"<html>", b"{}", b'{"items": [{}]}', b'{"items": []}', b'{"items": [3]}']
)
def test_an_answer_that_is_none_is_an_error_and_not_a_success(text: bytes) -> None:
    with pytest.raises(BulkError):
        understand([document(1)], text)


class TestGuard:
    def guard(self, server: HttpSession, now: TopicIdentity) -> TopicGuard:
        patience = ProgressTimeout(10, sleep=lambda _: None)
        return TopicGuard("shop", server, lambda topics: dict.fromkeys(topics, now), patience)

    def test_unchanged_topic_continues(self, server: HttpSession) -> None:
        for _ in range(2):
            self.guard(server, TopicIdentity("a", 3)).check({"orders", "lines"})

    def test_a_topic_with_more_partitions_stops(self, server: HttpSession) -> None:
        self.guard(server, TopicIdentity("a", 3)).check({"orders"})
        with pytest.raises(BulkError, match=r"orders has 4 partitions instead of 3.*new index"):
            self.guard(server, TopicIdentity("a", 4)).check({"orders"})

    def test_a_topic_that_was_made_again_stops(self, server: HttpSession) -> None:
        self.guard(server, TopicIdentity("a", 3)).check({"orders"})
        with pytest.raises(BulkError, match="deleted and recreated"):
            self.guard(server, TopicIdentity("b", 3)).check({"orders"})


DECLARED = """
name: {name}
from: {{topic: {{topic: {name}, schema: "id BIGINT, amount STRING, word STRING"}}}}
transforms: [{{filter: "word is null or word != 'none'"}}]
to: {{opensearch: {{url: "{url}", index: orders}}}}
errors: {{topic: {name}.dead}}
"""


def test_a_connector_writes_documents_and_sends_the_refused_to_the_dead_letters(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, search: BulkServer
) -> None:
    name = "searched"
    declared = connector(tmp_path, DECLARED.format(name=name, url=search.url), broker.bootstrap_servers)
    search.faults = [cut_after, busy]
    records = [(number % 5, {"id": number, "word": "w"}) for number in range(30)]
    produce(broker.bootstrap_servers, name, [*records, (4, None), (9, {"id": 9, "amount": "much"})])
    run_once(declared, spark)
    produce(broker.bootstrap_servers, name, [(0, {"id": 100})])
    run_once(declared, spark)
    expected = {str(key): {"id": 25 + key, "word": "w"} for key in range(1, 4)}
    assert search.bodies("orders") == expected | {"0": {"id": 100}, "4": {"deleted": True}}
    (letter,) = consume(broker.bootstrap_servers, f"{name}.dead")
    assert letter.value() == b'{"id": 9, "amount": "much"}'
    assert "mapper_parsing_exception" in headers_of(letter)["errors.reason"]


def test_rows_of_other_sources_are_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(3)
    sink = OpenSearchSink(url="http://127.0.0.1:1", index="orders")
    with pytest.raises(PipelineError, match="another one from there"):
        sink.open(spark, ConnectorContext("c", tmp_path, str(tmp_path)), dict(rows.dtypes))


@pytest.mark.parametrize("url", ["search:9200", "http://user:secret@search:9200", "ftp://search"])
def test_an_address_that_is_none_is_refused(spark: SparkSession, tmp_path: Path, url: str) -> None:
    columns = dict.fromkeys(("_topic", "_partition", "_offset", "_key", "id"), "string")
    with pytest.raises(PipelineError, match="https://host:9200") as caught:
        OpenSearchSink(url=url, index="orders").open(
            spark, ConnectorContext("c", tmp_path, str(tmp_path)), columns
        )
    assert "secret" not in str(caught.value)
