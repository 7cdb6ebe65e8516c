"""The controller deletes the objects of deleted topics; a later controller continues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas.broker.tiering.deletions import RemoteDeletions
from barnabas.cluster.deltas import Delta, FeatureFinalized, RemoteDeletionBegun, apply
from barnabas.cluster.features import METADATA_VERSION, TIERING_LEVEL
from barnabas.cluster.image import EMPTY_IMAGE, MetadataImage, RemoteDeletion
from barnabas.cluster.store import StaleControllerError
from barnabas.common.clock import ManualClock
from barnabas.controller.decision import Decision
from barnabas.testing.objects import Fault, MemoryObjectStore
from barnabas.tiering.objects.manifest import encode
from barnabas.tiering.objects.manifest_changes import pin, unpin
from tests.support.builders.segments import FOLDER, NOW, manifest_of
from tests.support.waiting import async_until

TOPIC_ID = FOLDER.topic_id


class FakeController:
    """A controller with one topic, whose only partition is `FOLDER`, to delete."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.is_active = True
        deletion = RemoteDeletion(TOPIC_ID, FOLDER.topic, 1)
        deltas: list[Delta] = [
            FeatureFinalized(METADATA_VERSION, TIERING_LEVEL),
            RemoteDeletionBegun(deletion),
        ]
        self.image: MetadataImage = apply(EMPTY_IMAGE, deltas)
        self.image = type(self.image)(**{**_fields(self.image), "cluster_id": FOLDER.cluster_id})

    async def submit(self, decision: Decision[None]) -> None:
        if not self.is_active:
            raise StaleControllerError("this broker is not the controller")
        deltas, _ = decision(self.image)
        self.image = apply(self.image, deltas)


def _fields(image: MetadataImage) -> dict[str, Any]:
    return {name: getattr(image, name) for name in image.__struct_fields__}


class World:
    def __init__(self) -> None:
        self.host = FakeController()
        self.store = MemoryObjectStore()
        manifest = manifest_of(0, 10, 20)
        self.store.set_contents(FOLDER.manifest, encode(manifest))
        for entry in manifest.entries:
            self.store.set_contents(FOLDER.key(entry.key), b"x")
        self.deletions = self.controller()

    def controller(self, linger: float = 0.0) -> RemoteDeletions:
        host = self.host
        return RemoteDeletions(
            self.store,
            host,  # type: ignore[arg-type]
            lambda: host.image,
            host.clock,
            _nothing,
            linger,
        )

    @property
    def is_over(self) -> bool:
        return not self.host.image.remote_deletions


async def _nothing() -> None:
    """No writer of this broker is ending."""


def running(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World()
        try:
            await scenario(world)
        finally:
            await world.deletions.stop()

    asyncio.run(run())


def test_all_objects_go_and_then_it_is_noted() -> None:
    async def scenario(world: World) -> None:
        world.deletions.follow()
        await async_until(lambda: world.is_over)
        assert world.store.keys == []

    running(scenario)


def test_only_the_controller_does_it() -> None:
    async def scenario(world: World) -> None:
        world.host.is_active = False
        world.deletions.follow()
        await asyncio.sleep(0.01)
        assert len(world.store.keys) == 3
        assert not world.store.requests

    running(scenario)


@pytest.mark.parametrize("call", range(1, 9))
def test_later_controller_continues_with_the_remainder(call: int) -> None:
    async def scenario(world: World) -> None:
        world.store.fault(Fault.HANG, at=call, times=1000)
        world.deletions.follow()
        await asyncio.sleep(0.02)
        await world.deletions.stop()
        world.store.heal()
        world.deletions = world.controller()
        world.deletions.follow()
        await async_until(lambda: world.is_over)
        assert world.store.keys == []

    running(scenario)


def test_late_upload_of_an_earlier_leader_is_deleted_by_another_sweep() -> None:
    async def scenario(world: World) -> None:
        world.deletions = world.controller(linger=600.0)
        world.deletions.follow()
        await async_until(lambda: not world.store.keys)
        late = FOLDER.key("00000000000000000020-0000000005-0000abcd.segment")
        world.store.set_contents(late, b"x")
        world.deletions.follow()
        await async_until(lambda: not world.store.keys)
        assert not world.is_over
        world.host.clock.advance(600_000)
        world.deletions.follow()
        await async_until(lambda: world.is_over)

    running(scenario)


def test_objects_kept_by_a_snapshot_stay_until_it_is_deleted() -> None:
    async def scenario(world: World) -> None:
        pinned = pin(manifest_of(0, 10, 20), "snapshot friday", NOW)
        world.store.set_contents(FOLDER.manifest, encode(pinned))
        world.deletions = world.controller(linger=0.01)
        world.deletions.follow()
        await async_until(lambda: b'"deleted"' in world.store.contents(FOLDER.manifest))
        await asyncio.sleep(0.05)
        assert len(world.store.keys) == 3
        assert not world.is_over
        world.store.set_contents(FOLDER.manifest, encode(unpin(pinned, "snapshot friday")))
        world.host.clock.advance(600_000)
        await async_until(lambda: world.is_over)
        assert world.store.keys == []

    running(scenario)


def test_a_store_that_fails_is_tried_again() -> None:
    async def scenario(world: World) -> None:
        world.store.fault(Fault.FAIL)
        world.deletions.follow()
        await asyncio.sleep(0.01)
        world.deletions.follow()
        await async_until(lambda: world.is_over)

    running(scenario)


def test_objects_of_another_incarnation_of_the_cluster_are_left_alone() -> None:
    async def scenario(world: World) -> None:
        image = world.host.image
        world.host.image = type(image)(**{**_fields(image), "incarnation": 1})
        world.deletions.follow()
        await async_until(lambda: world.is_over)
        assert len(world.store.keys) == 3

    running(scenario)
