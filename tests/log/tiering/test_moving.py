"""A tiered log moves to another log dir: local segments are copied, remote ones stay known."""

from barnabas.log.dirs.log_dir import LogDir
from barnabas.log.dirs.move import LogDirMove
from tests.support.builders.logs import content, new_log, read_all
from tests.support.builders.tiered_logs import LATER, TieredScene


def test_copy_starts_at_the_local_start_and_knows_the_remote_part() -> None:
    scene = TieredScene()
    scene.remote.copy(scene.log)
    scene.log.flush()
    scene.log.delete_old_segments(LATER)
    log = scene.log
    future = new_log("/other/orders-0.1-future", scene.config, scene.fs)
    source, target = LogDir(scene.fs, "/data"), LogDir(scene.fs, "/other")
    move = LogDirMove(log, future, source, target)
    move.align()
    assert (future.log_start_offset, future.local_start_offset, future.log_end_offset) == (0, 12, 12)
    while move.lag:
        data = content(log.read(future.log_end_offset, 1 << 20, log.log_end_offset))
        move.take(memoryview(data), LATER)
    assert future.epochs.entries == ((1, 0), (2, 6))
    scene.fs.rename("/other/orders-0.1-future", "/other/orders-0")
    log.use_files_of(future, "/other/orders-0")
    assert (log.log_start_offset, log.local_start_offset, log.offsets.tiered_end) == (0, 12, 12)
    assert log.tiered_checkpoint.covers == 12
    assert read_all(log, 12) == [(at, b"value-%d" % at) for at in range(12, 18)]
