"""Promotion, failover and reversal; kill -9 of all processes; damaged responses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import barnabas.services.mirror.fetching as fetching
from barnabas.client.admin import create_topic
from barnabas.client.mirrors.store import LinkStatus
from barnabas.protocol.api import ApiKey
from barnabas.services.mirror.partition import FetchResult
from barnabas.testing import EmbeddedBroker
from tests.services.mirror.test_following import settings, there
from tests.services.mirror.test_producing import Reader, produce
from tests.support.brokers import BrokerProcess
from tests.support.cli import Cli
from tests.support.mirrors.process import MirrorProcess, MirrorThread, all_batches, ask, ends, wait_for
from tests.support.proxies import proxied_broker


def open_transaction(bootstrap: str, topic: str, values: list[str]) -> Any:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"open-{topic}"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    producer.flush(60)
    return producer


def is_refused(bootstrap: str, topic: str) -> bool:
    seen: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "delivery.timeout.ms": 5000})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: seen.append(error))
    assert producer.flush(60) == 0
    assert len(seen) == 1
    return seen[0] is not None


def test_a_promotion_ends_open_transactions_and_there_is_a_way_back(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(source_servers, name, [str(n) for n in range(10)])
    cli, back = Cli(target_servers), Cli(source_servers)
    with MirrorThread(source_servers, target_servers, settings(name)) as mirror:
        pending = open_transaction(source_servers, name, ["never"] * 3)
        there(target_servers, name, [13])
        assert is_refused(target_servers, name)
        done = cli.ok(
            "mirror", "promote", "--topics", name, "--from", source_servers, "--yes", "-o", "json"
        ).json
        (topic,) = done["topics"]
        assert topic["state"] == "STOPPED"
        assert [each["first_offset"] for each in topic["aborted_transactions"]] == [10]
        wait_for(lambda: mirror.partitions(LinkStatus.STOPPED))
    produce(target_servers, name, ["after"])
    reader = Reader(target_servers, name)
    assert reader.read(11) == [*(str(n) for n in range(10)), "after"]
    reader.close()
    pending.abort_transaction(60)
    produce(source_servers, name, ["only the old primary has this"])

    arguments = ("mirror", "reverse", "--from", target_servers, "--link", "src", "--topics", name)
    reversed_ = back.ok(*arguments, "--yes", "-o", "json").json
    assert reversed_ == {"link": "src", "topics": [name]}
    with MirrorThread(target_servers, source_servers, settings(name)):
        wait_for(lambda: ends(source_servers, name) == ends(target_servers, name))
        assert all_batches(source_servers, name) == all_batches(target_servers, name)
        produce(target_servers, name, ["goes on"])
        wait_for(lambda: ends(source_servers, name) == ends(target_servers, name))
        rows = back.ok("mirror", "status", "--topics", name, "-o", "json").json["topics"]
        assert [(row["state"], row["link"], row["identical"]) for row in rows] == [("ACTIVE", "src", True)]
        assert "ACTIVE" in back.ok("mirror", "status", "--topics", name).out


def test_commands_name_the_error(target: EmbeddedBroker) -> None:
    cli = Cli(target.bootstrap_servers)
    nothing = cli("mirror", "pause", "--topics", "there-is-none")
    assert nothing.code == 2
    assert "mirror status" in nothing.err
    assert cli("mirror", "run", "--from", "a=b=c", "--to", target.bootstrap_servers).code == 2
    twice = cli("mirror", "run", "--from", "h:1", "--from", "h:2", "--to", target.bootstrap_servers)
    assert "aliases" in twice.err


def test_mirror_waits_for_an_unavailable_source_and_reports_it(
    tmp_path: Path, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, target_servers = new_name(), target.bootstrap_servers
    with BrokerProcess(tmp_path / "source") as source:
        source_servers = source.bootstrap_servers
        ask(source_servers, lambda client: create_topic(client, name, partitions=1))
        source.kill()
        with MirrorProcess(source_servers, target_servers, "--topics", name) as mirror:
            wait_for(
                lambda: any("waiting for the source src: cannot connect" in line for line in mirror.lines)
            )
            source.start()
            wait_for(lambda: ends(target_servers, name) == [0])
            assert mirror.stop() == 0
        source.kill()
        with MirrorProcess(source_servers, target_servers) as waiting:
            wait_for(lambda: any("waiting for" in line for line in waiting.lines))
            assert waiting.stop() == 0


def test_mirror_waits_for_a_source_that_fails_while_it_waits_for_the_target(
    tmp_path: Path, new_name: Callable[[], str]
) -> None:
    name = new_name()
    with BrokerProcess(tmp_path / "source") as source, BrokerProcess(tmp_path / "target") as target:
        source_servers, target_servers = source.bootstrap_servers, target.bootstrap_servers
        ask(source_servers, lambda client: create_topic(client, name, partitions=1))
        target.kill()
        with MirrorProcess(source_servers, target_servers, "--topics", name) as mirror:
            wait_for(lambda: any("waiting for the target" in line for line in mirror.lines))
            source.kill()
            target.start()
            wait_for(lambda: any("waiting for the source" in line for line in mirror.lines))
            source.start()
            wait_for(lambda: ends(target_servers, name) == [0])
            assert mirror.stop() == 0


def test_a_mirror_that_starts_survives_lost_connections_to_the_target(
    source: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name = new_name()
    source.create_topic(name, partitions=1)
    with proxied_broker() as (target, proxy):
        # The mirror's own topic and that of its status.
        lost = [proxy.hold(ApiKey.CREATE_TOPICS) for _ in range(2)]
        with MirrorProcess(source.bootstrap_servers, target.bootstrap_servers, "--topics", name) as mirror:
            wait_for(lambda: ends(target.bootstrap_servers, name) == [0])
            assert all(each.is_taken for each in lost)
            assert mirror.stop() == 0


def test_failover_without_the_source_survives_kill_9_of_all_processes(
    tmp_path: Path, new_name: Callable[[], str]
) -> None:
    name = new_name()
    with BrokerProcess(tmp_path / "source") as source, BrokerProcess(tmp_path / "target") as target:
        source_servers, target_servers = source.bootstrap_servers, target.bootstrap_servers
        ask(source_servers, lambda client: create_topic(client, name, partitions=2))
        stop = threading.Event()
        sent: list[int] = []

        def load() -> None:
            producer = Producer(
                {"bootstrap.servers": source_servers, "enable.idempotence": True, "linger.ms": 5}
            )
            while not stop.is_set():
                for _ in range(50):
                    producer.produce(name, str(len(sent)).encode(), partition=len(sent) % 2)
                    sent.append(0)
                producer.poll(0.02)
            producer.flush(60)

        loader = threading.Thread(target=load)
        with MirrorProcess(source_servers, target_servers, "--topics", name) as mirror:
            wait_for(lambda: min(ends(target_servers, name)) >= 0)
            loader.start()
            for victim in (target, source, mirror):
                before = ends(target_servers, name)
                wait_for(lambda before=before: min(ends(target_servers, name)) > min(before))  # type: ignore[misc]
                victim.kill()
                victim.start()
            before = ends(target_servers, name)
            wait_for(lambda: min(ends(target_servers, name)) > min(before))
            stop.set()
            loader.join()
            wait_for(lambda: ends(target_servers, name) == ends(source_servers, name))
            assert sum(ends(target_servers, name)) == len(sent)
            assert all_batches(target_servers, name) == all_batches(source_servers, name)
            source.kill()
            Cli(target_servers).ok("mirror", "failover", "--link", "src", "--yes")
            assert not is_refused(target_servers, name)


@pytest.mark.parametrize("forever", [False, True], ids=["for a while", "for ever"])
def test_source_with_damaged_responses_is_retried_and_given_up(
    source: EmbeddedBroker,
    target: EmbeddedBroker,
    new_name: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    forever: bool,
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(source_servers, name, ["a" * 100] * 10)
    honest, damaged = fetching.fetched_of, 0

    def damage(*arguments: Any) -> FetchResult:
        nonlocal damaged
        fetched: FetchResult = honest(*arguments)
        if not len(fetched.records) or (damaged >= 2 and not forever):
            return fetched
        damaged += 1
        data = bytearray(fetched.records)
        data[-1] ^= 0xFF
        return fetched._replace(records=memoryview(data))

    monkeypatch.setattr(fetching, "fetched_of", damage)
    with MirrorThread(source_servers, target_servers, settings(name)) as mirror:
        if forever:
            assert "damaged" in mirror.failed()
            assert ends(target_servers, name) == [0]
        else:
            there(target_servers, name, [10])
            assert all_batches(target_servers, name) == all_batches(source_servers, name)
