"""A mirroring broker, and a client that sends the requests of `barnabas mirror`."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from barnabas.protocol.messages import fetch, metadata, mirror
from barnabas.protocol.messages.mirror import MirrorAction, MirrorState
from barnabas.records.batch import iterate_headers
from barnabas.records.builder import build_batch
from barnabas.records.record import Record
from tests.support.clients import RawConnection
from tests.support.waiting import until

LINK, SOURCE_CLUSTER, SOURCE_ID = "dr", "source-cluster", bytes(15) + b"\x07"
TOPIC = "orders"


def batch(base: int, count: int = 1, epoch: int = 0, **more: Any) -> bytes:
    """A batch as a source has it."""
    records = [Record(0, 1_700_000_000_000, b"k%d" % (base + n), b"v%d" % (base + n)) for n in range(count)]
    return bytes(build_batch(records, base_offset=base, leader_epoch=epoch, **more))


class Target:
    """Sends requests to one broker."""

    def __init__(self, port: int) -> None:
        self.connection = RawConnection(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def alter(self, action: MirrorAction, name: str = TOPIC, **more: Any) -> Any:
        topic = mirror.AlteredMirrorTopic(
            name=name,
            action=action,
            source_name=more.pop("source_name", name),
            source_topic_id=more.pop("source_topic_id", SOURCE_ID),
            **more,
        )
        return self.alter_all([topic]).topics[0]

    def alter_all(self, topics: list[Any], **more: Any) -> Any:
        request = mirror.AlterMirrorsRequest(
            link=more.pop("link", LINK),
            source_cluster_id=more.pop("source_cluster_id", SOURCE_CLUSTER),
            topics=topics,
            **more,
        )
        return self.connection.ask(request, 0)

    def create(self, name: str = TOPIC, partitions: int = 1, replicas: int = -1, **configs: str) -> Any:
        values = [mirror.MirrorConfig(key.replace("_", "."), value) for key, value in configs.items()]
        created = self.alter(
            MirrorAction.CREATE,
            name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=values,
        )
        assert not created.error_code, created
        return created

    def topic(self, name: str = TOPIC) -> Any:
        requested = metadata.MetadataRequest([metadata.MetadataRequestTopic(name=name)], False)
        answer: Any = self.connection.ask(requested, 12)
        return answer.topics[0]

    def leader_epoch(self, index: int = 0, name: str = TOPIC) -> int:
        partitions = self.topic(name).partitions
        return next((each.leader_epoch for each in partitions if each.partition_index == index), -1)

    def append(self, *batches: bytes, index: int = 0, name: str = TOPIC, **more: Any) -> Any:
        topic_id = self.topic(name).topic_id
        source_id = more.pop("source_topic_id", SOURCE_ID)
        more.setdefault("leader_epoch", self.leader_epoch(index, name))
        data = mirror.MirroredPartition(index=index, records=b"".join(batches), **more)
        request = mirror.AppendMirroredRequest(topics=[mirror.MirroredTopic(topic_id, source_id, [data])])
        answer: Any = self.connection.ask(request, 0)
        return answer.topics[0].partitions[0]

    def raise_epoch(self, epoch: int, index: int = 0, name: str = TOPIC) -> None:
        wanted = mirror.AlteredMirrorPartition(index=index, min_leader_epoch=epoch)
        answer = self.alter(MirrorAction.NONE, name, partitions=[wanted])
        assert not answer.error_code, answer
        until(lambda: self.leader_epoch(index, name) >= epoch)

    def describe(self, name: str = TOPIC) -> Any:
        answer: Any = self.connection.ask(mirror.DescribeMirrorsRequest([name]), 0)
        return answer.topics[0]

    def described(self, index: int = 0, name: str = TOPIC) -> Any:
        return self.describe(name).partitions[index]

    def until_state(self, state: MirrorState, name: str = TOPIC) -> Any:
        return until(lambda: (found := self.describe(name)).state == state and found)

    def fetch(self, offset: int = 0, index: int = 0, name: str = TOPIC) -> bytes:
        """All bytes from there on."""
        topic_id, found = self.topic(name).topic_id, b""
        while True:
            wanted = fetch.FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=1 << 24, current_leader_epoch=-1
            )
            request = fetch.FetchRequest(
                max_wait_ms=0,
                max_bytes=1 << 24,
                topics=[fetch.FetchTopic(topic_id=topic_id, partitions=[wanted])],
                session_epoch=-1,
            )
            answer: Any = self.connection.ask(request, 13)
            data = answer.responses[0].partitions[0]
            assert not data.error_code, data
            if not data.records:
                return found
            found += bytes(data.records)
            offset = _end_of(found)


def _end_of(batches: bytes) -> int:
    return max(header.last_offset for _, header in iterate_headers(memoryview(batches))) + 1
