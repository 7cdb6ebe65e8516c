"""A broker without sockets and logs: metadata, settings, and a client."""

import asyncio
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from barnabas.cluster.features import SUPPORTED_FEATURES
from barnabas.cluster.image import Endpoint, MetadataImage
from barnabas.cluster.store import MemoryMetadataStore
from barnabas.config.broker import BrokerConfig
from barnabas.controller.brokers import Registration, create_cluster, register
from barnabas.controller.controller import Controller
from barnabas.controller.decision import ControllerPolicy, Decided
from barnabas.protocol.codec import decode_whole, encode
from barnabas.protocol.schema import Message
from barnabas.security.context import RequestContext
from barnabas.security.principal import ANONYMOUS
from barnabas.security.quotas import NO_QUOTAS

LISTENER = "PLAINTEXT"


class MetadataBroker:
    """Broker attributes of metadata handlers, with a real controller. Broker N listens on 9090+N."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.config = BrokerConfig.load(settings or {})
        self.node_id = 1
        self.registry_address = ""
        self.is_alone = True
        self.is_fenced = False
        self.supported_features = SUPPORTED_FEATURES
        self.quotas = NO_QUOTAS
        self.replicas = SimpleNamespace(offline={})
        self.store = MemoryMetadataStore()
        self.controller = Controller(self.store, 1)
        self.policy = ControllerPolicy(
            num_partitions=self.config["num.partitions"],
            default_replication_factor=self.config["default.replication.factor"],
        )

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    async def start(self, brokers: int = 1) -> None:
        await self.controller.start()
        await self.controller.submit(lambda image: create_cluster(image, "the-cluster", {}))
        for broker_id in range(1, brokers + 1):
            endpoints = (Endpoint(LISTENER, f"host{broker_id}", 9090 + broker_id),)
            registration = Registration(broker_id, f"machine{broker_id}", endpoints=endpoints)
            await self.controller.submit(partial(self._register, registration))

    def _register(self, registration: Registration, image: MetadataImage) -> Decided[int]:
        return register(image, registration, self.policy)


class Client:
    """Calls a handler like the dispatcher, with the fields of its version only."""

    def __init__(self, brokers: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self.broker = MetadataBroker(settings)
        asyncio.run(self.broker.start(brokers))

    @property
    def image(self) -> MetadataImage:
        return self.broker.image

    def decide(self, decision: Any) -> Any:
        return asyncio.run(self.broker.controller.submit(decision))

    def ask(self, handler: Any, message: Message, version: int, listener: str = LISTENER) -> Any:
        request = SimpleNamespace(
            version=version,
            connection=SimpleNamespace(listener=_Listener(listener)),
            context=RequestContext(ANONYMOUS, listener, "127.0.0.1"),
        )
        response = handler(self.broker, request, over_the_wire(message, version))
        if asyncio.iscoroutine(response):
            response = asyncio.run(_finish(response))
        return over_the_wire(response, version)


class _Listener:
    def __init__(self, name: str) -> None:
        self.name = name

    def advertised(self, connection: Any) -> tuple[str, int]:
        return "host1", 9091


async def _finish(coroutine: Any) -> Any:
    return await coroutine


def over_the_wire(message: Message, version: int) -> Any:
    return decode_whole(type(message), version, encode(message, version))
