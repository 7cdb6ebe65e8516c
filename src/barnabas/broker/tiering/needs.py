"""Interfaces of the broker and its platform used by tiered storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from barnabas.broker.tiering import cluster_snapshots as recording
from barnabas.cluster import Peers
from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import Clock
from barnabas.common.files import FileSystem
from barnabas.common.threads import ThreadBackground
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.controller import Controller
from barnabas.metrics import Registry
from barnabas.replication import ReplicaManager
from barnabas.tiering.stores import ObjectStore


class Host(recording.Host, Protocol):
    """Parts of the broker used by tiered storage."""

    @property
    def clock(self) -> Clock: ...
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def controller(self) -> Controller: ...
    @property
    def files(self) -> FileSystem: ...
    @property
    def image(self) -> MetadataImage: ...
    @property
    def metrics(self) -> Registry: ...
    @property
    def node_id(self) -> int: ...
    @property
    def broker_epoch(self) -> int: ...
    def follow_leadership(self) -> None: ...
    def settle(self, tp: TopicPartition) -> None: ...
    @property
    def peers(self) -> Peers: ...
    @property
    def replicas(self) -> ReplicaManager: ...


class TieringPlatform(Protocol):
    @property
    def probe_rounds(self) -> int | None: ...
    def object_store(self, url: str, options: Mapping[str, str]) -> ObjectStore: ...
    def threads(self, count: int, name: str) -> ThreadBackground: ...
