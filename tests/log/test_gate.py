"""Who watches the free space of a log dir, and what is said about it."""

import pytest

from barnabas.errors import KafkaError
from barnabas.log.gate import CHECK_EVERY_MS, Gate
from barnabas.testing.files import FaultyFileSystem


def test_a_full_disk_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    disk = FaultyFileSystem(space=100)
    disk.make_folders("/data")
    gate = Gate(disk, "/data", reserve_bytes=500)
    for second in range(3):
        with pytest.raises(KafkaError, match="free some space"):
            gate.check(second * CHECK_EVERY_MS)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    disk.give_space(1000)
    gate.check(10 * CHECK_EVERY_MS)
    gate.check(20 * CHECK_EVERY_MS)
    assert [record.message for record in caplog.records][1:] == ["/data has room again"]
