import asyncio
from pathlib import Path

import pytest

from barnabas.cluster.deltas import Delta, FeatureFinalized, TopicDeleted
from barnabas.cluster.image import MetadataImage
from barnabas.cluster.store import (
    FileMetadataStore,
    MemoryMetadataStore,
    StaleControllerError,
)
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.files import LocalFileSystem
from barnabas.common.types import new_uuid
from barnabas.controller.controller import Controller
from barnabas.controller.decision import Decided


def count_up(image: MetadataImage) -> Decided[int]:
    level = image.features.get("count", 0) + 1
    return [FeatureFinalized("count", level)], level


def test_every_decision_sees_the_result_of_the_previous_one() -> None:
    async def main() -> None:
        controller = Controller(MemoryMetadataStore(), 1)
        await controller.start()
        assert await asyncio.gather(*(controller.submit(count_up) for _ in range(5))) == [1, 2, 3, 4, 5]

    asyncio.run(main())


def test_a_controller_begins_an_epoch_of_its_own() -> None:
    async def main() -> None:
        store = MemoryMetadataStore()
        assert (await Controller(store, 1).start()).controller_epoch == 1
        image = await Controller(store, 7).start()
        assert (image.controller_id, image.controller_epoch) == (7, 2)

    asyncio.run(main())


def test_callbacks_hear_of_every_change_in_order_before_the_caller_does() -> None:
    async def main() -> None:
        received: list[tuple[int, list[Delta]]] = []
        controller = Controller(MemoryMetadataStore(), 1)
        await controller.start()
        controller.on_commit.append(lambda image, deltas: received.append((image.features["count"], deltas)))
        await controller.submit(count_up)
        assert received == [(1, [FeatureFinalized("count", 1)])]

    asyncio.run(main())


def test_a_callback_that_fails_does_not_keep_the_others_from_hearing() -> None:
    async def main() -> None:
        received: list[MetadataImage] = []

        def fail(image: MetadataImage, deltas: list[Delta]) -> None:
            raise RuntimeError("broken")

        controller = Controller(MemoryMetadataStore(), 1)
        await controller.start()
        controller.on_commit += [fail, lambda image, deltas: received.append(image)]
        assert await controller.submit(count_up) == 1
        assert received == [controller.image]

    asyncio.run(main())


def test_a_decision_without_changes_writes_nothing() -> None:
    async def main() -> None:
        store = MemoryMetadataStore()
        controller = Controller(store, 1)
        await controller.start()
        assert await controller.submit(lambda image: ([], "looked")) == "looked"
        assert len(store.entries) == 1

    asyncio.run(main())


def test_unstored_changes_are_reverted() -> None:
    async def main() -> None:
        store = MemoryMetadataStore()
        controller = Controller(store, 1)
        before = await controller.start()
        store.fail_next = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")
        with pytest.raises(KafkaError, match="disk full"):
            await controller.submit(count_up)
        assert controller.image == before
        assert await controller.submit(count_up) == 1

    asyncio.run(main())


def test_deltas_that_do_not_fit_the_image_never_reach_the_log() -> None:
    async def main() -> None:
        store = MemoryMetadataStore()
        controller = Controller(store, 1)
        await controller.start()
        with pytest.raises(KeyError):
            await controller.submit(lambda image: ([TopicDeleted(new_uuid())], None))
        assert len(store.entries) == 1

    asyncio.run(main())


def test_a_controller_that_was_replaced_can_no_longer_write() -> None:
    async def main() -> None:
        store = MemoryMetadataStore()
        old, new = Controller(store, 1), Controller(store, 2)
        await old.start()
        await new.start()
        with pytest.raises(StaleControllerError):
            await old.submit(count_up)
        assert await new.submit(count_up) == 1

    asyncio.run(main())


def test_disconnected_caller_leaves_log_and_image_equal() -> None:
    async def main() -> None:
        store = MemoryMetadataStore()
        controller = Controller(store, 1)
        await controller.start()
        caller = asyncio.ensure_future(controller.submit(count_up))
        while len(store.entries) == 1 and not caller.done():
            await asyncio.sleep(0)
            caller.cancel()
        await controller.submit(lambda image: ([], None))
        assert controller.image == await store.load()

    asyncio.run(main())


def test_restarted_controller_finds_its_entries_after_snapshots(tmp_path: Path) -> None:
    async def main() -> None:
        first = Controller(FileMetadataStore(LocalFileSystem(), str(tmp_path), snapshot_at_bytes=200), 1)
        await first.start()
        for _ in range(10):
            await first.submit(count_up)
        await first.stop()
        assert (tmp_path / "metadata.snapshot").exists()
        with pytest.raises(StaleControllerError):
            await first.submit(count_up)
        second = Controller(FileMetadataStore(LocalFileSystem(), str(tmp_path)), 1)
        image = await second.start()
        assert image.features == {"count": 10}
        assert image.controller_epoch == 2
        await second.stop()

    asyncio.run(main())


def refuse(image: MetadataImage) -> Decided[str]:
    return [], "refused"


def test_rejection_of_an_unaware_predecessor_does_not_count() -> None:
    async def main() -> None:
        store = MemoryMetadataStore()
        replaced = Controller(store, 1)
        await replaced.start()
        assert await replaced.submit(refuse, refusals_count=True) == "refused"
        # The zombie does not learn of the new one for a while.
        replaced.metadata.stop()
        await Controller(store, 2).start()
        assert await replaced.submit(refuse) == "refused"
        with pytest.raises(StaleControllerError):
            await replaced.submit(refuse, refusals_count=True)

    asyncio.run(main())
