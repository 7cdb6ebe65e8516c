"""Replication of partitions, settings, log starts and groups; and reasons for a partition to stop."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.client.admin import (
    DELETE,
    TOPIC,
    ConfigChange,
    alter_configs,
    create_partitions,
    create_topic,
    delete_records,
    delete_topics,
)
from barnabas.client.cluster import Client
from barnabas.client.groups import commit_offsets, committed_offsets
from barnabas.client.mirrors.control import mirrors_of, pause, resume
from barnabas.client.mirrors.requests import LinkName, act_on_mirrors, describe_mirrors, fail_partitions
from barnabas.client.mirrors.store import LinkStatus
from barnabas.common.types import TopicPartition
from barnabas.protocol.messages.mirror import MirrorAction, MirrorState
from barnabas.services.mirror.configs import own_settings
from barnabas.services.mirror.partition import Following
from barnabas.services.mirror.plan import PlanError
from barnabas.services.mirror.runner import open_link
from barnabas.services.mirror.settings import MirrorSettings, parse_source
from barnabas.testing import EmbeddedBroker
from tests.services.mirror.test_producing import Reader, produce
from tests.support.brokers import BrokerProcess
from tests.support.kafka.broker import ApacheKafka
from tests.support.mirrors.process import MirrorThread, all_batches, ask, ends, starts, wait_for


def settings(name: str, **more: object) -> MirrorSettings:
    return MirrorSettings(topics=name, refresh=0.3, **more)  # type: ignore[arg-type]


def there(target: str, name: str, source_servers: list[int]) -> None:
    wait_for(lambda: ends(target, name) == source_servers)


def test_partitions_settings_and_log_starts_follow_the_source(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    ask(
        source_servers,
        lambda client: create_topic(client, name, partitions=1, configs={"retention.ms": "86400000"}),
    )
    produce(source_servers, name, [str(n) for n in range(10)])
    ask(source_servers, lambda client: delete_records(client, TopicPartition(name, 0), 4))
    with MirrorThread(source_servers, target_servers, settings(name)):
        there(target_servers, name, [10])
        wait_for(lambda: starts(target_servers, name) == [4])
        assert ask(target_servers, lambda client: own_settings(client, [name])) == {
            name: {"retention.ms": "86400000"}
        }
        ask(source_servers, lambda client: create_partitions(client, name, 3))
        produce(source_servers, name, ["x"], partition=2)
        there(target_servers, name, [10, 0, 1])
        change = [
            ConfigChange("retention.ms", None, DELETE),
            ConfigChange("cleanup.policy", "compact,delete"),
        ]
        ask(source_servers, lambda client: alter_configs(client, TOPIC, name, change))
        wanted = {name: {"cleanup.policy": "compact,delete"}}
        wait_for(lambda: ask(target_servers, lambda client: own_settings(client, [name])) == wanted)
        ask(source_servers, lambda client: delete_records(client, TopicPartition(name, 0), 7))
        wait_for(lambda: starts(target_servers, name) == [7, 0, 0])


def test_records_deleted_in_the_source_may_be_kept(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(source_servers, name, [str(n) for n in range(10)])
    ask(source_servers, lambda client: delete_records(client, TopicPartition(name, 0), 4))
    with MirrorThread(source_servers, target_servers, settings(name, keep_deleted=True)):
        there(target_servers, name, [10])
        ask(source_servers, lambda client: delete_records(client, TopicPartition(name, 0), 8))
        produce(source_servers, name, ["more"])
        there(target_servers, name, [11])
        assert starts(target_servers, name)[0] <= 4


def test_a_topic_that_is_created_again_fails_and_one_that_is_deleted_stays(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(source_servers, name, ["old"])
    with MirrorThread(source_servers, target_servers, settings(name)) as mirror:
        there(target_servers, name, [1])
        ask(source_servers, lambda client: delete_topics(client, [name]))
        assert "deleted at the source" in mirror.failed()
        source.create_topic(name, partitions=1)
        produce(source_servers, name, ["new", "new"])

        def response() -> bool:
            (topic,) = ask(target_servers, lambda client: describe_mirrors(client, [name]))
            return topic.partitions[0].state == MirrorState.FAILED

        wait_for(response)
    assert ends(target_servers, name) == [1]
    with MirrorThread(source_servers, target_servers, settings(name)) as mirror:
        wait_for(lambda: name in mirror.links[0].topics.notices.refused)
    assert ends(target_servers, name) == [1]


def test_a_pause_is_obeyed_and_a_failed_partition_is_resumed_by_a_person(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(source_servers, name, ["one"])

    async def do(client: Client, what: Callable[..., object]) -> None:
        await what(client, await mirrors_of(client, "src", name))  # type: ignore[misc]

    with MirrorThread(source_servers, target_servers, settings(name)) as mirror:
        there(target_servers, name, [1])
        ask(target_servers, lambda client: do(client, pause))
        wait_for(lambda: mirror.partitions(LinkStatus.PAUSED))
        produce(source_servers, name, ["two"])
        assert ends(target_servers, name) == [1]
        ask(target_servers, lambda client: do(client, resume))
        there(target_servers, name, [2])
        mirror.partitions(LinkStatus.ACTIVE)[0].fail("a test says so")

        def state() -> str:
            return ask(target_servers, lambda client: mirrors_of(client, "src", name))[0].state

        wait_for(lambda: state() == "FAILED")
    with MirrorThread(source_servers, target_servers, settings(name)) as mirror:
        assert mirror.failed() == "a test says so"  # another process does not change that
        ask(target_servers, lambda client: do(client, resume))
        produce(source_servers, name, ["three"])
        there(target_servers, name, [3])


def test_one_order_resumes_a_failed_partition_whose_source_was_away(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=1)
    with MirrorThread(source_servers, target_servers, settings(name)):
        there(target_servers, name, [0])

    async def fail_and_resume(client: Client) -> list[str]:
        (mirror,) = await mirrors_of(client, "src", name)
        link = LinkName(mirror.link, mirror.source_cluster)
        (await act_on_mirrors(client, link, MirrorAction.SOURCE_UNAVAILABLE, [name])).raise_first()
        (await fail_partitions(client, link, {name: {0: "a test says so"}})).raise_first()
        await resume(client, await mirrors_of(client, "src", name))
        return [mirror.state for mirror in await mirrors_of(client, "src", name)]

    assert ask(target_servers, fail_and_resume) == ["ACTIVE"]


def test_topic_deleted_in_the_target_is_mirrored_again(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(source_servers, name, ["one", "two"])
    with MirrorThread(source_servers, target_servers, settings(name)):
        there(target_servers, name, [2])
        before = ask(target_servers, lambda client: client.topics([name]))[name].id
        ask(target_servers, lambda client: delete_topics(client, [name]))
        wait_for(lambda: ask(target_servers, lambda client: client.topics([name]))[name].id != before)
        there(target_servers, name, [2])


def test_two_mirrors_at_once_do_no_harm(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=2)
    with (
        MirrorThread(source_servers, target_servers, settings(name)) as first,
        MirrorThread(source_servers, target_servers, settings(name)) as second,
    ):
        for number in range(10):
            produce(source_servers, name, [f"{number}-{n}" for n in range(300)], partition=number % 2)
        wait_for(lambda: ends(target_servers, name) == ends(source_servers, name))
        assert not first.partitions(LinkStatus.FAILED)
        assert not second.partitions(LinkStatus.FAILED)
    assert all_batches(target_servers, name) == all_batches(source_servers, name)


def test_groups_with_members_or_offsets_of_their_own_are_left_alone(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(source_servers, name, [str(n) for n in range(10)])
    tp = TopicPartition(name, 0)
    groups = {each: f"{each}-{name}" for each in ("follows", "busy", "own")}
    for group in groups.values():
        ask(source_servers, lambda client, group=group: commit_offsets(client, group, {tp: 3}))  # type: ignore[misc]
    with MirrorThread(source_servers, target_servers, settings(name, groups=f".*-{name}")) as mirror:

        def commit_of(group: str) -> int:
            return ask(target_servers, lambda client: committed_offsets(client, groups[group]))[tp].offset

        wait_for(lambda: commit_of("follows") == commit_of("busy") == commit_of("own") == 3)
        reader = Reader(target_servers, name, groups["busy"])
        assert reader.read(7) == [str(n) for n in range(3, 10)]
        ask(target_servers, lambda client: commit_offsets(client, groups["own"], {tp: 5}))
        for group in groups.values():
            ask(source_servers, lambda client, group=group: commit_offsets(client, group, {tp: 8}))  # type: ignore[misc]
        wait_for(lambda: commit_of("follows") == 8)
        wait_for(lambda: len(mirror.links[0].topics.notices.groups) == 2)
        assert "members" in mirror.links[0].topics.notices.groups[groups["busy"]]
        assert "did not write" in mirror.links[0].topics.notices.groups[groups["own"]]
        assert commit_of("own") == 5
        reader.close()
        # A commit beyond the end of the target waits there.
        ask(source_servers, lambda client: commit_offsets(client, groups["follows"], {tp: 1000}))
        wait_for(lambda: commit_of("follows") == 10)


def test_a_loop_is_refused(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(source_servers, name, ["one"])
    with MirrorThread(source_servers, target_servers, settings(name)):
        there(target_servers, name, [1])
        with MirrorThread(target_servers, source_servers, settings(name, rename="back.{topic}")) as back:
            wait_for(lambda: name in back.links[0].topics.notices.refused)
            assert "a loop" in back.links[0].topics.notices.refused[name]
    with pytest.raises(PlanError, match="same cluster"):
        asyncio.run(
            open_link(parse_source(source_servers), source_servers, settings(name, rename="again.{topic}"))
        )


METADATA = ("__barnabas_metadata", "__cluster_metadata-0", "meta.properties", "bootstrap.checkpoint")


def restore(kept: Path, data: Path) -> None:
    """Logs from a backup with current metadata: epochs increase, as after an unclean election."""
    for child in data.iterdir():
        if child.is_dir() and child.name == "logs":
            restore(kept / "logs", child)
        elif child.name not in METADATA and child.name in {each.name for each in kept.iterdir()}:
            shutil.rmtree(child) if child.is_dir() else child.unlink()
            shutil.copytree(kept / child.name, child) if (kept / child.name).is_dir() else shutil.copy2(
                kept / child.name, child
            )


def check_truncation(source: BrokerProcess | ApacheKafka, folder: Path, target: str, name: str) -> None:
    """The source loses its newest records: a disk from a backup."""
    source_servers = source.bootstrap_servers
    source.start()
    ask(source_servers, lambda client: create_topic(client, name, partitions=1))
    produce(source_servers, name, [str(n) for n in range(10)])
    source.stop()
    shutil.copytree(folder, folder.parent / "kept")
    source.start()
    produce(source_servers, name, [str(n) for n in range(10, 30)])
    with MirrorThread(source_servers, target, settings(name)) as mirror:
        there(target, name, [30])
        source.kill()
        restore(folder.parent / "kept", folder)
        source.start()
        assert "truncated" in mirror.failed()
        assert ends(target, name) == [30]
    produce(source_servers, name, [f"other-{n}" for n in range(5)])
    with MirrorThread(source_servers, target, settings(name, following=Following(truncation=True))):
        # It is still FAILED in the metadata until an operator resumes it.
        async def go_on(client: Client) -> None:
            await resume(client, await mirrors_of(client, "src", name))

        ask(target, go_on)
        there(target, name, [15])
    assert all_batches(target, name) == all_batches(source_servers, name)
    source.stop()


def test_source_set_back_in_time_stops_the_mirror_without_truncation_by_default(
    tmp_path: Path, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    folder = tmp_path / "data"
    check_truncation(BrokerProcess(folder), folder, target.bootstrap_servers, new_name())


@pytest.mark.java
@pytest.mark.extended
def test_apache_kafka_that_loses_records_stops_the_mirror(
    tmp_path: Path, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    folder = tmp_path / "kafka"
    kafka = ApacheKafka(folder, heap="256m")
    check_truncation(kafka, folder, target.bootstrap_servers, new_name())
