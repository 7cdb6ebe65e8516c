"""Metadata changes while no broker runs: the first users, which the brokers may need to authenticate at startup.

On a standalone node this locks the log dirs while it changes the metadata. In a cluster it becomes the controller for a
short time; if a broker is the controller, the changes must be sent to the cluster instead.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from barnabas.broker.cluster_connection import connection_from, found_cluster
from barnabas.broker.local_requests import answer
from barnabas.client.access import raise_refusals, setting_password
from barnabas.cluster import Membership, MetadataFollower
from barnabas.cluster.features import SUPPORTED_FEATURES, initial_features
from barnabas.cluster.image import MetadataImage
from barnabas.cluster.zookeeper import check_hides_secrets
from barnabas.common.clock import SystemClock
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import LocalFileSystem
from barnabas.common.types import new_uuid, uuid_to_text
from barnabas.config.broker import BrokerConfig
from barnabas.controller import Controller, Decided, Decision
from barnabas.controller.brokers import create_cluster
from barnabas.controller.scram_credentials import Alteration, Deletion, Upsertion, alter_credentials
from barnabas.log.dirs import LogManager
from barnabas.network.requests import Dispatcher
from barnabas.protocol.messages.sasl import AlterUserScramCredentialsResponse
from barnabas.security.authn import ScramMechanism, new_credential

# -- Users created by a running broker: the first user of `serve --users`, and those of embedded brokers

FIRST_USER = "admin"
_PASSWORD_BYTES = 18  # 144 bits, safe against offline guessing


class OfflineNeeds(Protocol):
    """Parts of the broker used here."""

    @property
    def dispatcher(self) -> Dispatcher: ...
    @property
    def image(self) -> MetadataImage: ...


async def create_first_user(broker: OfflineNeeds) -> str | None:
    """Create the first user if none exists, and return the generated password, which is not stored in plain text."""
    if broker.image.scram_credentials:
        return None
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    await add_user(broker, FIRST_USER, password)
    return password


async def add_user(broker: OfflineNeeds, name: str, password: str) -> None:
    """Create a user with credentials for both SCRAM mechanisms."""
    for request in setting_password(name, password, ScramMechanism):
        response = await answer(broker, request)
        assert isinstance(response, AlterUserScramCredentialsResponse)
        raise_refusals(response)


T = TypeVar("T")
User = tuple[str, ScramMechanism, int]


def users(config: BrokerConfig) -> list[User]:
    """Return name, mechanism and iterations of each credential."""

    def read(image: MetadataImage) -> Decided[list[User]]:
        found = image.scram_credentials.items()
        return [], [(user.name, ScramMechanism(user.mechanism), kept.iterations) for user, kept in found]

    return decide(config, [read])[0]


def set_password(
    config: BrokerConfig, name: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
) -> None:
    check_hides_secrets(config)
    decide(
        config,
        [
            _altering(Upsertion(name, mechanism, new_credential(mechanism, password, iterations)))
            for mechanism in mechanisms
        ],
    )


def delete_user(config: BrokerConfig, name: str) -> None:
    mechanisms = [mechanism for user, mechanism, _ in users(config) if user == name]
    if not mechanisms:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"user {name} does not exist")
    decide(config, [_altering(Deletion(name, mechanism)) for mechanism in mechanisms])


def _altering(alteration: Alteration) -> Decision[None]:
    def altered(image: MetadataImage) -> Decided[None]:
        deltas, results = alter_credentials(image, [alteration])
        for problem in results.values():
            if problem is not None:
                raise problem
        return deltas, None

    return altered


def decide(config: BrokerConfig, decisions: Sequence[Decision[T]]) -> list[T]:
    """Apply decisions in order, as the controller."""
    return asyncio.run(_decide(config, decisions))


async def _decide(config: BrokerConfig, decisions: Sequence[Decision[T]]) -> list[T]:
    async with _controller(config) as controller:
        return [await controller.submit(decision) for decision in decisions]


@asynccontextmanager
async def _controller(config: BrokerConfig) -> AsyncIterator[Controller]:
    logs = None if config["zookeeper.connect"] else _locked(config)
    connection = connection_from(config, LocalFileSystem(), SUPPORTED_FEATURES, lambda: metadata.image)
    metadata = MetadataFollower(connection.store)
    controller = Controller(connection.store, config.node_id, metadata)
    try:
        await connection.open(logs.cluster_id if logs is not None else None, None)
        await metadata.start()
        await _take_over(controller, connection.membership, config)
        if not controller.image.cluster_id:
            await controller.submit(_founding(config, logs))
        yield controller
    finally:
        await controller.stop()
        await connection.membership.leave()
        if logs is not None:
            logs.close(clean=False)


def _locked(config: BrokerConfig) -> LogManager:
    """Lock the log dirs of a standalone node. Fails if the node is running."""
    logs = LogManager(LocalFileSystem(), config.log_dirs, SystemClock(), config)
    logs.lock()
    return logs


def _founding(config: BrokerConfig, logs: LogManager | None) -> Decision[None]:
    """Create the cluster before its first broker starts."""
    if logs is not None:
        cluster_id, adopted = found_cluster(config, logs, config.node_id)
    else:
        cluster_id, adopted = config["barnabas.cluster.id"] or uuid_to_text(new_uuid()), []

    def found(image: MetadataImage) -> Decided[None]:
        created, _ = create_cluster(image, cluster_id, initial_features(SUPPORTED_FEATURES))
        return [*created, *adopted], None

    return found


async def _take_over(controller: Controller, membership: Membership, config: BrokerConfig) -> None:
    elected: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def stand(epoch: int) -> None:
        if not elected.done():
            elected.set_result(epoch)

    membership.campaign(stand, lambda: None)
    try:
        # A killed broker remains the controller until its session expires.
        async with asyncio.timeout(config["zookeeper.session.timeout.ms"] / 1000 + 2):
            epoch = await elected
    except TimeoutError:
        raise KafkaError(
            ErrorCode.BROKER_NOT_AVAILABLE,
            "a broker of this cluster is running and is the controller: use --bootstrap-server, or stop all brokers",
        ) from None
    await controller.take_over(epoch)
