"""The load generators against a broker: their counts must equal the broker's."""

import json
import os
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.testing import EmbeddedBroker
from benchmarks.clients import end_to_end, fill, keyed_fill, produce_latency, transactions
from benchmarks.loads import client, client_command, pinged
from benchmarks.rows.groups import wait_for_coordinators
from tests.support.tiering.stores import BUCKET, moto_server

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the load generator uses epoll")


def end_offset(broker: EmbeddedBroker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused"})
    _low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
    consumer.close()
    return int(high)


def test_the_load_generator_gets_an_answer_for_each_request_it_counts(
    barnabas: EmbeddedBroker, barnabas_topic: str
) -> None:
    options = ("--port", barnabas.port, "--topic", barnabas_topic, "--connections", 10, "--requests", 500)
    assert client("loadgen", "--api", "produce", *options)["requests"] == 500
    # Each connection has one request in flight when the last response arrives.
    assert 500 <= end_offset(barnabas, barnabas_topic) <= 510
    assert client("loadgen", "--api", "fetch", *options)["requests"] == 500


def test_the_load_generator_ends_when_the_broker_answers_with_an_error(barnabas: EmbeddedBroker) -> None:
    options = ("--port", barnabas.port, "--topic", "no-such-topic", "--connections", 1, "--requests", 5)
    with pytest.raises(RuntimeError, match="error 3"):
        client("loadgen", "--api", "produce", *options)


def test_filling_a_log_writes_the_reported_number_of_records(
    barnabas: EmbeddedBroker, barnabas_topic: str
) -> None:
    records = fill.fill("127.0.0.1", barnabas.port, barnabas_topic, 1_000_000)
    assert records == 16 * fill.RECORDS_PER_BATCH
    assert end_offset(barnabas, barnabas_topic) == records


def test_a_log_is_read_whole_without_decoding_it(barnabas: EmbeddedBroker, barnabas_topic: str) -> None:
    records = fill.fill("127.0.0.1", barnabas.port, barnabas_topic, 30_000_000)
    options = ("--port", barnabas.port, "--topic", barnabas_topic, "--end-offset", records)
    assert client("log_reader", *options)["bytes"] == pytest.approx(30_000_000, rel=0.01)


def test_obstore_reports_the_transferred_bytes() -> None:
    size = 20 << 20
    with moto_server() as options:
        for what in ("put", "get"):
            command = client_command("object_ranges", what, "--bucket", BUCKET, "--key", "k", "--bytes", size)
            done = subprocess.run(
                command, input=json.dumps(options), capture_output=True, text=True, check=True
            )
            assert json.loads(done.stdout)["mb_per_second"] > 0


def test_produce_latency_is_measured_for_the_given_rate_and_time(
    barnabas: EmbeddedBroker, barnabas_topic: str
) -> None:
    figures = produce_latency.measure(barnabas.bootstrap_servers, barnabas_topic, rate=5000, seconds=0.2)
    assert figures["samples"] == 1000
    assert 0 < figures["p50_us"] <= figures["p99_us"]


def test_end_to_end_latency_sees_every_record_once(barnabas: EmbeddedBroker, barnabas_topic: str) -> None:
    figures = end_to_end.measure(barnabas.bootstrap_servers, barnabas_topic, rate=1000, seconds=0.3)
    assert figures["samples"] == 300
    assert 0 < figures["p50_us"] <= figures["p99_us"]


def test_transactions_are_committed_with_all_their_records(
    barnabas: EmbeddedBroker, barnabas_topic: str
) -> None:
    figures = transactions.measure(barnabas.bootstrap_servers, barnabas_topic, transactions=20)
    assert figures["transactions"] == 20
    all_of_them = 20 + transactions.WARMUP_TRANSACTIONS
    # Each transaction ends with a marker.
    assert end_offset(barnabas, barnabas_topic) == all_of_them * (transactions.RECORDS_PER_TRANSACTION + 1)


def test_a_log_to_compact_holds_the_same_records_every_time(
    barnabas: EmbeddedBroker, barnabas_topic: str
) -> None:
    batches = list(keyed_fill.batches_of(200_000, record_bytes=100))
    assert 200_000 <= sum(map(len, batches)) < 300_000
    fill.send_batches("127.0.0.1", barnabas.port, barnabas_topic, batches)
    assert end_offset(barnabas, barnabas_topic) == len(batches) * 600
    again = keyed_fill.batches_of(200_000, record_bytes=100)
    records_of = slice(61, None)  # all but the header, which has the time in it
    assert all(one[records_of] == other[records_of] for one, other in zip(batches, again, strict=True))


def test_commits_and_settling_groups_are_counted_when_the_coordinator_answers(
    barnabas: EmbeddedBroker, barnabas_topic: str
) -> None:
    options = ("--port", barnabas.port, "--topic", barnabas_topic, "--connections", 10, "--requests", 100)
    wait_for_coordinators(barnabas.port, barnabas_topic, groups=3)
    assert client("loadgen", "--api", "commit", "--groups", 3, *options)["requests"] == 100
    settling_options = ("--port", barnabas.port, "--group", "settling", "--topic", barnabas_topic)
    assert client("settling", *settling_options, "--members", 5, "--groups", 2)["ms"] > 0


def test_members_of_a_consumer_group_settle_and_send_heartbeats(barnabas: EmbeddedBroker) -> None:
    topic = barnabas.create_topic(partitions=5)
    wait_for_coordinators(barnabas.port, topic, 1)
    options = ("--port", barnabas.port, "--topic", topic, "--partitions", 5, "--members", 4)
    assert client("consumer_members", "join", "--group", "joined", *options)["ms"] > 0
    stay = ("--group", "stays", "--heartbeats", 40, "--pid", os.getpid())
    assert client("consumer_members", "stay", *options, *stay)["rate"] > 0


def test_every_job_of_a_task_queue_is_published_taken_and_acknowledged(barnabas: EmbeddedBroker) -> None:
    options = ("--system", "barnabas", "--port", barnabas.port, "--queue", "job-figures", "--workers", 2)
    figures = client("queues.jobs", *options, "--jobs", 1500)
    assert figures["jobs"] == 1500
    assert 0 < figures["p50_ms"] <= figures["p99_ms"]
    assert end_offset(barnabas, "job-figures") == 1500


def test_each_handshake_that_is_counted_is_a_new_one_while_another_connection_pings() -> None:
    with EmbeddedBroker(security="SSL") as broker:
        options = ("--port", broker.port, "--ca", broker.ca_file)
        with pinged(broker.port, "--ca", broker.ca_file) as pings:
            assert client("security.handshakes", *options, "--count", 20)["count"] == 20
        assert 0 < pings["p50_us"] <= pings["p99_us"] <= pings["longest"] * 1e6
        # One warms the client up, one pings.
        assert broker.broker.sockets.tls.handshakes.ended["done"] == 20 + 2


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_logins_are_counted_when_the_broker_has_proved_that_it_knows_the_password(mechanism: str) -> None:
    with EmbeddedBroker(security="SASL_PLAINTEXT", users={"alice": "secret"}) as broker:
        options = ("--port", broker.port, "--mechanism", mechanism, "--user", "alice", "--count", 20)
        assert client("security.logins", *options, "--password", "secret")["count"] == 20
        with pytest.raises(RuntimeError, match="login refused: error 58"):
            client("security.logins", *options, "--password", "wrong")
