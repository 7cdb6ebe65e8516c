"""Single partitions of a running broker are closed for another process, and reopened."""

import random
from collections.abc import Iterable

import pytest

from barnabas.common.types import TopicPartition
from barnabas.config.topic import LogConfig
from barnabas.log.checkpoints import RECOVERY_POINTS
from barnabas.log.dirs.manager import LogManager
from barnabas.log.recovery.verification import ShutdownKind
from barnabas.testing.files import FaultyFileSystem, PowerLost
from tests.support.builders.logs import PARTITION, TOPIC_ID, append, get, loaded, managed, produced, read_all

OTHER = TopicPartition("other", 0)


def close_one(logs: LogManager, partition: TopicPartition = PARTITION) -> None:
    closing = logs.handover.begin_closing(partition)
    assert closing is not None
    closing.job.run()
    for log_dir in logs.handover.end_closing([closing]):
        logs.checkpoint_step(log_dir)()


def open_one(logs: LogManager, stop: ShutdownKind, partition: TopicPartition = PARTITION) -> None:
    stops = {partition: stop}
    logs.handover.end_opening(logs.handover.opening(stops, lambda *_: LogConfig())(), stops)


def filled(fs: FaultyFileSystem, values: Iterable[bytes] = (b"a", b"b", b"c")) -> LogManager:
    logs, _ = loaded(fs)
    logs.loss_is_reported()
    log = logs.create(PARTITION, TOPIC_ID, LogConfig())
    logs.create(OTHER, bytes(reversed(TOPIC_ID)), LogConfig())
    for number, value in enumerate(values):
        append(log, produced(7, 0, number, value))
    return logs


def test_a_closed_partition_is_complete_when_it_is_opened() -> None:
    logs = filled(FaultyFileSystem())
    close_one(logs)
    assert logs.get(PARTITION) is None
    open_one(logs, ShutdownKind.CLEAN)
    log = get(logs)
    assert read_all(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert (log.recovery_point, log.high_watermark, log.topic_id) == (3, 3, TOPIC_ID)
    assert append(log, produced(7, 0, 2, b"c"))[-1]  # a duplicate: the producer is recognised
    append(log, produced(7, 0, 3, b"d"))
    assert logs.dir_of(PARTITION) is logs.dirs[0]


@pytest.mark.parametrize("way", ["all lost", "some lost"])
def test_power_may_be_lost_at_every_step_of_a_handover(way: str) -> None:
    """Closed records are on the disk, also if the partition is never opened again."""
    step = 0
    while True:
        step += 1
        fs = FaultyFileSystem()
        logs = filled(fs)
        log = get(logs)
        log.flush()
        fs.lose_power_at(step)
        try:
            close_one(logs)
            open_one(logs, ShutdownKind.CLEAN)
        except PowerLost:
            done = False
        else:
            done = True
        fs.heal()
        after = fs.crash(torn=None if way == "all lost" else random.Random(way))
        again, report = loaded(after, boot="after a power cut")
        assert not report.damaged
        assert read_all(get(again)) == [(0, b"a"), (1, b"b"), (2, b"c")]
        if done:
            assert step > 1
            return


def test_checkpoints_still_cover_a_partition_that_is_closed() -> None:
    """Otherwise it would look like a new one without its folder."""
    fs = FaultyFileSystem()
    logs = filled(fs)
    close_one(logs)
    logs.checkpoint()
    fs.remove_tree(f"/data/{PARTITION}")
    open_one(logs, ShutdownKind.CLEAN)
    assert logs.missing(PARTITION) is not None
    logs.close(clean=False)
    again = managed(fs)
    again.load(lambda *_: LogConfig())
    assert again.missing(PARTITION) is not None


def test_entries_of_a_released_partition_are_those_of_its_next_process() -> None:
    """Entries kept by this process, including pending jobs, would make a newer log look damaged."""
    logs = filled(FaultyFileSystem())
    close_one(logs)
    late = logs.checkpoint_job_of(logs.dirs[0])
    logs.handover.released(PARTITION)
    state = logs.dirs[0].state
    state.write_offsets(RECOVERY_POINTS, {OTHER: 0})  # the next process has deleted it
    logs.dirs[0].others_have_written([])
    late.run()
    logs.checkpoint()
    assert PARTITION not in state.read_offsets(RECOVERY_POINTS)
    open_one(logs, ShutdownKind.CLEAN)
    logs.checkpoint()
    assert PARTITION in state.read_offsets(RECOVERY_POINTS)


def test_a_partition_whose_process_was_killed_is_recovered() -> None:
    fs = FaultyFileSystem()
    filled(fs).close(clean=False)
    logs = managed(fs)
    logs.load(lambda *_: LogConfig())
    close_one(logs)
    fs.open(f"/data/{PARTITION}/00000000000000000000.log").append(b"torn")
    loader = logs.handover.opening({PARTITION: ShutdownKind.KILLED}, lambda *_: LogConfig())()
    assert loader.report.recovered[PARTITION].cut_bytes == 4
    logs.handover.end_opening(loader, {PARTITION: ShutdownKind.KILLED})
    assert len(read_all(get(logs))) == 3


def test_a_new_partition_has_nothing_to_open() -> None:
    logs = filled(FaultyFileSystem())
    new = TopicPartition("new", 0)
    open_one(logs, ShutdownKind.CLEAN, new)
    assert logs.get(new) is None
    assert logs.create(new, TOPIC_ID, LogConfig()).log_end_offset == 0


def test_a_closed_partition_leaves_nothing_behind_for_a_new_one_of_its_name() -> None:
    fs = FaultyFileSystem()
    logs = filled(fs)
    get(logs).advance_log_start(2)
    close_one(logs)
    fs.remove_tree(f"/data/{PARTITION}")
    logs.create(PARTITION, TOPIC_ID, LogConfig())
    logs.close()
    again, report = loaded(fs)
    assert not report.damaged
    assert (get(again).log_start_offset, get(again).log_end_offset) == (0, 0)


def test_damage_is_found_at_the_opening_and_noted_next_to_that_of_others() -> None:
    fs = FaultyFileSystem()
    logs = filled(fs)
    close_one(logs)
    logs.dirs[0].state.write_partitions(".barnabas-damaged", {OTHER})
    path = f"/data/{PARTITION}/00000000000000000000.log"
    fs.overwrite(path, fs.read_bytes(path)[:-1])
    open_one(logs, ShutdownKind.KILLED)
    assert PARTITION in logs.damaged
    assert logs.dirs[0].state.read_partitions(".barnabas-damaged") == {OTHER, PARTITION}


def test_a_new_log_inherits_no_offsets_that_another_process_has_written() -> None:
    """The entry is another process's, so our last checkpoint, without it, must not count as written."""
    fs = FaultyFileSystem()
    logs = filled(fs)
    logs.checkpoint()
    new = TopicPartition("new", 0)
    state = logs.dirs[0].state
    noted = state.read_offsets(RECOVERY_POINTS)
    state.write_offsets(RECOVERY_POINTS, noted | {new: 7})
    fs.make_folders("/data/new-0")
    stops = {new: ShutdownKind.CLEAN}
    logs.handover.end_opening(
        logs.handover.opening(stops, lambda *_: None)(), stops
    )  # a stray: it is set aside
    logs.create(new, TOPIC_ID, LogConfig())
    assert new not in state.read_offsets(RECOVERY_POINTS)
