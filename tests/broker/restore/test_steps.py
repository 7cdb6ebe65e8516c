"""A restore that is killed at any step is completed by the next one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.broker.restore.plan import RestoreRefusedError, choose_cluster, make_plan
from barnabas.broker.restore.steps import Restored, RestoreStep, restore_cluster
from barnabas.broker.restore.targets import FolderTarget
from barnabas.testing import EmbeddedBroker
from tests.support.tiering.lost_cluster import (
    RECORDS,
    Lost,
    Store,
    check_restored,
    committed_offsets,
    lose_cluster,
    produce,
    read,
)
from tests.support.waiting import until


class Died(BaseException):
    """As kill -9."""


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lost, Path]:
    """With its bucket, of which each test has a copy."""
    bucket = tmp_path_factory.mktemp("bucket")
    return lose_cluster(Store(f"file://{bucket}"), tmp_path_factory.mktemp("lost") / "data"), bucket


@pytest.fixture
def store(lost: tuple[Lost, Path], tmp_path: Path) -> Store:
    shutil.copytree(lost[1], tmp_path / "bucket")
    return Store(f"file://{tmp_path}/bucket")


def restore(store: Store, data: Path, die_at: RestoreStep | None = None, visit: int = 1) -> Restored:
    left = {"visits": visit}

    def at(step: RestoreStep) -> None:
        if step is die_at:
            left["visits"] -= 1
            if not left["visits"]:
                raise Died(step)

    async def work(opened):  # type: ignore[no-untyped-def]
        target = FolderTarget(data, 1)
        await target.check()
        plan = await make_plan(opened, await choose_cluster(opened, store.url, None))
        return await restore_cluster(opened, plan, target, at=at)

    return store.run(work)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("step", "visit"),
    [
        (RestoreStep.INCARNATION_RAISED, 1),
        (RestoreStep.MANIFEST_CLAIMED, 2),
        (RestoreStep.OFFSETS_WRITTEN, 1),
        (RestoreStep.STATE_WRITTEN, 1),
    ],
)
def test_repeating_the_command_repairs_a_crash_at_each_step(
    lost: tuple[Lost, Path], store: Store, tmp_path: Path, step: RestoreStep, visit: int
) -> None:
    data = tmp_path / "new"
    with pytest.raises(Died):
        restore(store, data, step, visit)
    assert not data.exists()
    (tmp_path / "new.restoring").mkdir()
    (tmp_path / "new.restoring" / "half").write_bytes(b"of an earlier attempt")
    assert restore(store, data).incarnation == 2
    with EmbeddedBroker(store.settings, data_dir=data) as broker:
        assert broker.broker.image.incarnation == 2
        bounded = {
            index: min(offset, lost[0].tiered_ends["clicks", index])
            for index, offset in lost[0].committed.items()
        }
        assert committed_offsets(broker) == bounded
        end = lost[0].tiered_ends["clicks", 0]
        assert read(broker, "clicks") == [(offset, offset) for offset in range(end)]


def test_a_broker_that_dies_while_logs_begin_begins_them_again(
    lost: tuple[Lost, Path], store: Store, tmp_path: Path
) -> None:
    restore(store, tmp_path / "new")
    broker = EmbeddedBroker(store.settings, data_dir=tmp_path / "new")
    for _ in range(3):
        broker.start()
        broker.kill()
    with broker:
        check_restored(lost[0], broker)


def test_a_lost_segment_cuts_its_partition_and_offsets_are_clamped(
    lost: tuple[Lost, Path], store: Store, tmp_path: Path
) -> None:
    bucket = tmp_path / "bucket"
    second = sorted(bucket.glob("*/topics/clicks.*/0/*.segment"))[1]
    end = int(second.name.split("-")[0])
    second.unlink()
    restore(store, tmp_path / "new")
    with EmbeddedBroker(store.settings, data_dir=tmp_path / "new") as broker:
        assert read(broker, "clicks") == [(offset, offset) for offset in range(end)]
        assert committed_offsets(broker)[0] == min(end, lost[0].committed[0])
        produce(broker, "clicks", range(end, RECORDS))
        until(lambda: len(list((tmp_path / "new" / "clicks-0").glob("*.log"))) == 1, "copying goes on")
        assert read(broker, "clicks") == [(offset, offset) for offset in range(RECORDS)]


def test_a_topic_that_only_the_store_knows_is_adopted(store: Store, tmp_path: Path) -> None:
    """It was created after the metadata were written down."""
    (folder,) = (tmp_path / "bucket").glob("*/topics/clicks.*")
    for path in (tmp_path / "bucket").glob("*/cluster/*"):
        path.unlink()
    with EmbeddedBroker({**store.settings, "barnabas.cluster.id": folder.parent.parent.name}) as other:
        other.create_topic("unrelated")
        until(lambda: list((tmp_path / "bucket").glob("*/cluster/*")), "written down")
    done = restore(store, tmp_path / "new")
    assert {"clicks", "payments"} <= done.image.topics.keys()
    with EmbeddedBroker(store.settings, data_dir=tmp_path / "new") as broker:
        taken = read(broker, "clicks")
        assert taken == [(offset, offset) for offset in range(len(taken))]
        assert len(taken) > 1000


def test_broker_without_the_store_does_not_lead_restored_partitions(store: Store, tmp_path: Path) -> None:
    restore(store, tmp_path / "new")
    with EmbeddedBroker(data_dir=tmp_path / "new") as broker:
        partition = broker.broker.replicas.by_name["clicks"][0]
        assert not partition.is_leader
        assert partition.log.log_end_offset == 0


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda bucket: _cut_short(bucket, "*/cluster/*"), "is damaged or truncated"),
        (lambda bucket: _cut_short(bucket, "*/topics/clicks.*/0/manifest"), "clicks.*/0/manifest is damaged"),
        (lambda bucket: _cut_short(bucket, "*/incarnation"), "incarnation is damaged"),
        (lambda bucket: _cut_short(bucket, "*/groups/*-0"), "groups/.* is damaged"),
    ],
)
def test_damaged_objects_stop_it_and_are_left_as_they_are(
    store: Store, tmp_path: Path, break_it: Callable[[Path], dict[Path, bytes]], message: str
) -> None:
    bucket = tmp_path / "bucket"
    damaged = break_it(bucket)
    with pytest.raises(Exception, match=message):
        restore(store, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    for path, data in damaged.items():
        assert path.read_bytes() == data


def _cut_short(bucket: Path, pattern: str) -> dict[Path, bytes]:
    cut = {}
    for path in bucket.glob(pattern):
        path.write_bytes(path.read_bytes()[:-5])
        cut[path] = path.read_bytes()
    assert cut
    return cut


def test_a_bucket_of_several_clusters_wants_a_name(store: Store, tmp_path: Path) -> None:
    (tmp_path / "bucket" / "another-cluster" / "cluster").mkdir(parents=True)
    (tmp_path / "bucket" / "another-cluster" / "incarnation").write_bytes(b"x")
    with pytest.raises(RestoreRefusedError, match=r"several clusters(?s:.*)another-cluster"):
        restore(store, tmp_path / "new")


def test_a_cluster_that_was_thought_lost_writes_nothing_any_more(store: Store, tmp_path: Path) -> None:
    """Its bucket was restored elsewhere while it was cut off."""
    restore(store, tmp_path / "old")
    with EmbeddedBroker(store.settings, data_dir=tmp_path / "old") as old:
        before = read(old, "clicks")
        done = restore(store, tmp_path / "new")
        until(lambda: _manifest(store, done.incarnation), "it is claimed")
        produce(old, "clicks", range(3000))
        led = old.broker.tiering.led  # type: ignore[union-attr]
        until(
            lambda: all(each.writer.state == "fenced" for each in led.values() if each.writer.error), "fenced"
        )
        until(lambda: any(each.writer.state == "fenced" for each in led.values()), "its writers are fenced")
        with EmbeddedBroker(store.settings, data_dir=tmp_path / "new") as new:
            assert read(new, "clicks") == before
            produce(new, "clicks", range(100))
            assert len(read(new, "clicks")) == len(before) + 100
    written = sorted(path.name for path in (tmp_path / "bucket").glob("*/cluster/*"))
    assert written[-1].startswith(f"{done.incarnation:010}-")


def _manifest(store: Store, incarnation: int) -> bool:
    folder = Path(store.url.removeprefix("file://"))
    text = f'"incarnation":{incarnation}'.encode()
    return all(text in path.read_bytes() for path in folder.glob("*/topics/*/*/manifest"))
