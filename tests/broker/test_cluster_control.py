"""Background actions of the controller, with brokers that start and stop on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from barnabas.broker import cluster_control as control
from barnabas.broker.cluster_control import ClusterControl
from barnabas.broker.move_sizes import MoveSize
from barnabas.cluster.deltas import Delta, TopicCreated
from barnabas.cluster.features import SUPPORTED_FEATURES
from barnabas.cluster.image import MetadataImage, PartitionState, TopicState
from barnabas.cluster.membership import BrokerInfo, Brokers
from barnabas.cluster.store import MemoryMetadataStore, StaleControllerError
from barnabas.common.types import new_uuid
from barnabas.controller.controller import Controller
from barnabas.controller.decision import ControllerPolicy
from barnabas.controller.healing import HealingSettings
from barnabas.controller.settings import ALL_BROKERS, MIN_ISR

DEADLINE = 60.0
TOPIC = TopicState("orders", new_uuid(), (PartitionState((1, 2), (1, 2), 2),))


class Members:
    """As much of a membership as the controller's own work needs."""

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerInfo] = {}
        self.stepped_down = asyncio.Event()
        self._epoch = 0

    def on_brokers_changed(self, callback: Callable[[Brokers], None]) -> None:
        self._told = callback

    def campaign(self, elected: Callable[[int], None], resigned: Callable[[], None]) -> None:
        self.elected = elected

    def step_down(self) -> None:
        self.stepped_down.set()

    def come(self, broker_id: int, features: dict[str, tuple[int, int]] = SUPPORTED_FEATURES) -> None:
        self._epoch += 1
        self.brokers[broker_id] = BrokerInfo(
            broker_id, host=f"machine-{broker_id}", features=features, epoch=self._epoch
        )
        self._told(dict(self.brokers))

    def go(self, broker_id: int) -> None:
        del self.brokers[broker_id]
        self._told(dict(self.brokers))

    def tell(self, brokers: Brokers) -> None:
        self._told(brokers)


class RefusingStore(MemoryMetadataStore):
    async def append(self, image_offset: int, controller_epoch: int, deltas: list[Delta]) -> int:
        raise StaleControllerError("somebody else is the controller")


class SilentStore(MemoryMetadataStore):
    async def head(self) -> int:
        never: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        return await never


class SlowStore(MemoryMetadataStore):
    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()

    async def head(self) -> int:
        await self.go_on.wait()
        return await super().head()


async def nothing_to_copy(image: MetadataImage, targets: object) -> MoveSize:
    return MoveSize(0, {}, 0, 0)


class Controlling:
    def __init__(
        self, balance_seconds: float | None = None, store: type[MemoryMetadataStore] = MemoryMetadataStore
    ) -> None:
        self.members = Members()
        self.controller = Controller(store(), 1)
        founding: tuple[str, list[Delta]] = ("a-cluster", [TopicCreated(TOPIC)])
        self._control = ClusterControl(
            self.controller,
            self.members,  # type: ignore[arg-type]
            lambda: ControllerPolicy(min_insync_replicas=2),
            lambda: founding,
            lambda: balance_seconds,
            HealingSettings(None, False, 0.0, 1),
            nothing_to_copy,
            SUPPORTED_FEATURES,
            is_alone=False,
        )

    async def __aenter__(self) -> Controlling:
        await self.controller.metadata.start()
        self._control.start()
        self.members.elected(1)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._control.stop()

    async def until_image(self, condition: Callable[[MetadataImage], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            await self.controller.metadata.until(condition)


def leader(image: MetadataImage) -> int:
    state = image.partition("orders", 0)
    return state.leader if state is not None else -1


def test_brokers_that_come_and_go_do_not_put_off_the_balancing_of_leaders() -> None:
    async def main() -> None:
        async with Controlling(balance_seconds=0.2) as cluster:
            for broker_id in (2, 1):  # the first one leads
                cluster.members.come(broker_id)
            await cluster.until_image(lambda image: len(image.brokers) == 2)
            assert leader(cluster.controller.image) == 2
            flapping = asyncio.ensure_future(flap(cluster.members))
            await cluster.until_image(lambda image: leader(image) == 1)
            flapping.cancel()

    asyncio.run(main())


async def flap(members: Members) -> None:
    while True:
        members.come(3)
        await asyncio.sleep(0.01)
        members.go(3)
        await asyncio.sleep(0.01)


def test_a_term_that_was_given_up_while_it_caught_up_does_not_begin() -> None:
    async def main() -> None:
        store = SlowStore()
        controller = Controller(store, 1)
        await controller.metadata.start()
        beginning = asyncio.ensure_future(controller.take_over(5))
        await asyncio.sleep(0)
        controller.resign()
        store.go_on.set()
        with pytest.raises(StaleControllerError, match="given up"):
            await beginning
        assert not controller.is_active

    asyncio.run(main())


@pytest.mark.parametrize("store", [RefusingStore, SilentStore])
def test_ineligible_controller_lets_others_be_elected(
    store: type[MemoryMetadataStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(control, "BEGIN_SECONDS", 0.5)

    async def main() -> None:
        async with Controlling(store=store) as cluster, asyncio.timeout(DEADLINE):
            await cluster.members.stepped_down.wait()
            assert not cluster.controller.is_active

    asyncio.run(main())


def test_a_cluster_has_its_minimum_before_it_has_brokers() -> None:
    async def main() -> None:
        async with Controlling() as cluster:
            cluster.members.come(1)
            await cluster.until_image(lambda image: 1 in image.brokers)
            entries = cluster.controller._store.entries  # type: ignore[attr-defined]
            kinds = [[type(delta).__name__ for delta in entry.deltas] for entry in entries]
            assert kinds.index(["ConfigsChanged"]) < next(
                index for index, names in enumerate(kinds) if "BrokerStored" in names
            )
            shared: Mapping[str, str] = cluster.controller.image.configs[ALL_BROKERS]
            assert shared == {MIN_ISR: "2"}

    asyncio.run(main())


def test_broker_that_is_too_old_is_not_registered_and_blocks_no_other() -> None:
    async def main() -> None:
        async with Controlling() as cluster:
            cluster.members.come(2, features={"group.version": (0, 0)})
            cluster.members.come(1)
            await cluster.until_image(lambda image: 1 in image.brokers)
            assert list(cluster.controller.image.brokers) == [1]
            assert cluster.controller.is_active

    asyncio.run(main())


def test_broker_fenced_in_error_is_unfenced_with_the_same_epoch() -> None:
    """A new controller reads the log first, and learns a moment later which brokers are alive."""

    async def main() -> None:
        async with Controlling() as cluster:
            for broker_id in (2, 1):
                cluster.members.come(broker_id)
            await cluster.until_image(lambda image: len(image.brokers) == 2)
            alive = dict(cluster.members.brokers)
            cluster.members.go(2)
            await cluster.until_image(lambda image: image.brokers[2].fenced)
            cluster.members.tell(alive)
            await cluster.until_image(lambda image: not image.brokers[2].fenced)
            assert cluster.controller.image.brokers[2].epoch == alive[2].epoch

    asyncio.run(main())
