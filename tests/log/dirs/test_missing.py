"""Partitions with a missing folder whose checkpoint has records, and checkpoint entries that prove no loss."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.common.clock import ManualClock
from barnabas.common.files import LocalFileSystem
from barnabas.common.types import TopicPartition
from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import LogConfig
from barnabas.log import names
from barnabas.log.dirs.log_dir import LogDir
from barnabas.log.dirs.manager import LogManager
from barnabas.log.dirs.missing import accept_losses
from barnabas.log.dirs.state import ACCEPTED_LOSSES
from barnabas.log.failures import DamagedLog
from tests.support.builders.logs import NOW, PARTITION, TOPIC_ID, append, batch

OTHER = TopicPartition("orders", 1)


def started(tmp_path: Path, dirs: int = 1, expected: bool = True, boot: str = "boot") -> LogManager:
    """A manager that has opened the existing logs; `expected`: its topic belongs here."""
    folders = [str(tmp_path / f"disk-{number}") for number in range(dirs)]
    config = BrokerConfig.load({"log.dirs": ",".join(folders), "barnabas.disk.reserve.bytes": "0"})
    logs = LogManager(LocalFileSystem(), folders, ManualClock(NOW), config, boot_id=lambda: boot)
    logs.lock()
    logs.claim("cluster-0123456789abcd", 1)
    logs.load(lambda partition, topic_id: LogConfig(file_delete_delay_ms=0) if expected else None)
    logs.loss_is_reported()
    return logs


def filled(tmp_path: Path, dirs: int = 1) -> LogManager:
    logs = started(tmp_path, dirs)
    for partition in (PARTITION, OTHER):
        log = logs.create(partition, TOPIC_ID, LogConfig(file_delete_delay_ms=0))
        append(log, batch(b"a", b"b", b"c"))
        log.commit_written()
    logs.checkpoint()
    return logs


def lose(logs: LogManager, partition: TopicPartition = PARTITION) -> str:
    log_dir = logs.dir_of(partition)
    assert log_dir is not None
    folder = f"{log_dir.folder}/{partition}"
    LocalFileSystem().remove_tree(folder)
    return folder


@pytest.mark.parametrize("clean", [True, False])
def test_a_partition_that_is_noted_and_has_no_folder_is_damaged_at_every_start(
    tmp_path: Path, clean: bool
) -> None:
    logs = filled(tmp_path)
    logs.close(clean)
    folder = lose(logs)
    for _ in range(2):
        logs = started(tmp_path)
        assert list(logs.damaged) == [PARTITION]
        with pytest.raises(DamagedLog) as refusal:
            logs.create(PARTITION, TOPIC_ID, LogConfig())
        for words in (
            f"the log in {folder} is damaged",
            "up to offset 3",
            f"log repair {folder} --accept-loss",
        ):
            assert words in str(refusal.value)
        assert "`barnabas topics delete orders`" in str(refusal.value)
        assert logs.get(OTHER) is not None
        logs.checkpoint()
        logs.close(clean)


def test_a_folder_that_is_put_back_is_served_again(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    logs.close()
    folder = f"{logs.dirs[0].folder}/{PARTITION}"
    os.rename(folder, f"{tmp_path}/elsewhere")
    logs = started(tmp_path)
    assert list(logs.damaged) == [PARTITION]
    logs.close()
    os.rename(f"{tmp_path}/elsewhere", folder)
    logs = started(tmp_path)
    log = logs.get(PARTITION)
    assert (logs.damaged, log and log.log_end_offset) == ({}, 3)
    logs.close()


def test_partitions_deleted_with_their_topic_leave_the_checkpoint(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    logs.close()
    lose(logs)
    logs = started(tmp_path)
    logs.delete(PARTITION)
    log = logs.create(PARTITION, bytes(16), LogConfig())
    assert log.log_end_offset == 0
    logs.close(clean=False)
    logs = started(tmp_path)
    assert logs.damaged == {}
    logs.close()


def test_an_accepted_loss_counts_once(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    logs.close()
    lose(logs)
    accept_losses(logs.dirs[0], {PARTITION})
    logs = started(tmp_path)
    missing = logs.missing(PARTITION)
    assert missing is not None
    assert missing.is_accepted
    logs.give_up_missing(PARTITION)
    append(logs.create(PARTITION, TOPIC_ID, LogConfig()), batch(b"new"))
    logs.close()
    lose(logs)
    logs = started(tmp_path)
    missing = logs.missing(PARTITION)
    assert missing is not None
    assert not missing.is_accepted
    logs.close()


def test_acceptance_is_removed_when_the_folder_is_restored(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    logs.close()
    accept_losses(logs.dirs[0], {PARTITION})
    started(tmp_path).close()
    assert LogDir(LocalFileSystem(), logs.dirs[0].folder).state.read_partitions(ACCEPTED_LOSSES) == set()


def test_a_loss_that_was_found_is_not_forgotten_after_a_power_cut(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    logs.close(clean=False)  # nothing was flushed: only high watermarks are noted
    lose(logs)
    started(tmp_path).close(clean=False)
    logs = started(tmp_path, boot="after a power cut")
    assert list(logs.damaged) == [PARTITION]
    logs.close()


# -- notes that prove no loss -------------------------------------------------------------------------


def test_a_topic_that_was_deleted_while_the_broker_was_down_is_not_missed(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    logs.close()
    lose(logs)
    logs = started(tmp_path, expected=False)
    assert logs.damaged == {}
    logs.close()
    logs = started(tmp_path)  # and a topic of that name that is created later
    assert logs.damaged == {}
    logs.close()


def test_a_log_that_was_deleted_just_before_a_crash_is_not_missed(tmp_path: Path) -> None:
    """The checkpoint still notes it: a topic of that name was created again while the broker was down."""
    logs = filled(tmp_path)
    logs.delete(PARTITION)
    logs.close(clean=False)
    logs = started(tmp_path)
    assert logs.damaged == {}
    logs.close()


def test_folder_of_a_deleted_log_is_removed_after_its_checkpoint_entry(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    logs.delete(PARTITION)
    logs.housekeeping(NOW)
    assert not list(Path(logs.dirs[0].folder).glob("*-delete"))
    logs.close(clean=False)
    logs = started(tmp_path)
    assert logs.damaged == {}
    logs.close()


def test_a_folder_that_never_reached_the_disk_is_not_missed(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    logs.close(clean=False)
    lose(logs)  # as a power cut does to a folder that was not synced, though its high watermark was noted
    logs = started(tmp_path, boot="after a power cut")
    assert logs.damaged == {}
    logs.close()


def test_a_log_that_was_emptied_or_never_had_records_is_not_missed(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    log = logs.get(PARTITION)
    assert log is not None
    log.advance_log_start(3)
    logs.delete(OTHER)
    logs.create(OTHER, TOPIC_ID, LogConfig())
    logs.close()
    for partition in (PARTITION, OTHER):
        lose(logs, partition)
    logs = started(tmp_path)
    assert logs.damaged == {}
    logs.close()


def moved(logs: LogManager, until: int) -> None:
    """Move the partition to the other dir, up to this step (log/dirs/move.py)."""
    log = logs.get(PARTITION)
    source = logs.dir_of(PARTITION)
    assert log is not None
    target = next(log_dir for log_dir in logs.dirs if log_dir is not source)
    move = logs.moves.begin(log, target)
    move.future.append_as_follower(memoryview(log.read(0, 1 << 20, 3).read()), NOW)  # type: ignore[union-attr]
    move.future.flush()
    logs.checkpoint()
    steps: list[Callable[[], object]] = [
        logs.moves.leave_note(move),
        lambda: logs.moves.change(move),
        lambda: logs.moves.sync_target(move),
        lambda: logs.moves.retire_source(move),
        lambda: logs.moves.remove_note(move),
        lambda: logs.moves.end(move),
        logs.checkpoint,
    ]
    for step in steps[:until]:
        step()


@pytest.mark.parametrize("until", range(8))
def test_a_log_that_moves_between_log_dirs_is_never_missed(tmp_path: Path, until: int) -> None:
    logs = filled(tmp_path, dirs=2)
    moved(logs, until)
    logs.close(clean=False)
    logs = started(tmp_path, dirs=2)
    log = logs.get(PARTITION)
    assert (logs.damaged, log and log.log_end_offset) == ({}, 3)
    logs.checkpoint()
    logs.close(clean=False)
    noting = [each for each in logs.dirs if PARTITION in each.read_checkpoints().recovery_points]
    assert noting[0] in logs.dirs


def test_a_log_that_was_moved_and_then_lost_is_missed(tmp_path: Path) -> None:
    logs = filled(tmp_path, dirs=2)
    moved(logs, 8)
    logs.close(clean=False)
    lose(logs)
    logs = started(tmp_path, dirs=2)
    assert list(logs.damaged) == [PARTITION]
    logs.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("until", range(2, 8))
def test_a_log_that_is_lost_while_it_moves_is_missed(tmp_path: Path, until: int, clean: bool) -> None:
    """The old folder is not used instead: it lacks later records."""
    logs = filled(tmp_path, dirs=2)
    moved(logs, until)
    log = logs.get(PARTITION)
    assert log is not None
    append(log, batch(b"d"))
    log.flush()
    logs.checkpoint()
    logs.close(clean)
    lose(logs)
    logs = started(tmp_path, dirs=2)
    assert (list(logs.damaged), logs.get(PARTITION)) == ([PARTITION], None)
    logs.give_up_missing(PARTITION)
    assert logs.create(PARTITION, TOPIC_ID, LogConfig()).log_end_offset == 0
    logs.close()


@pytest.mark.parametrize("until", range(2, 8))
def test_a_clean_stop_leaves_one_folder_of_a_log_that_moves(tmp_path: Path, until: int) -> None:
    logs = filled(tmp_path, dirs=2)
    moved(logs, until)
    logs.close()
    held = [each.folder for each in logs.dirs if os.path.exists(f"{each.folder}/{PARTITION}")]
    target = logs.dir_of(PARTITION)
    assert target is not None
    assert held == [target.folder]


def test_a_log_that_may_be_in_a_dir_that_is_offline_is_not_called_missing(tmp_path: Path) -> None:
    logs = filled(tmp_path, dirs=2)
    logs.close()
    lose(logs)
    other = next(each for each in logs.dirs if each is not logs.dir_of(PARTITION))
    os.rename(other.folder, f"{tmp_path}/away")
    Path(other.folder).write_text("not a folder")
    logs = started(tmp_path, dirs=2)
    assert (len(logs.offline_dirs), logs.damaged) == (1, {})
    logs.checkpoint()
    logs.close()
    Path(other.folder).unlink()
    os.rename(f"{tmp_path}/away", other.folder)
    logs = started(tmp_path, dirs=2)
    assert list(logs.damaged) == [PARTITION]  # entries were kept
    logs.close()


def test_deleted_folders_with_long_names_are_recognized() -> None:
    partition = TopicPartition("x" * 249, 7)
    name = names.retired_folder_name(partition, names.DELETE_FOLDER)
    assert names.is_deleted_folder(name, partition)
    assert not names.is_deleted_folder(name, TopicPartition("x", 7))
    assert not names.is_deleted_folder(names.retired_folder_name(partition, names.STRAY_FOLDER), partition)
