"""Linux counters: example files, and those of this machine."""

from pathlib import Path

import pytest

from barnabas.services.ingest.agent import NoProcError
from barnabas.services.ingest.host.proc import (
    Cpu,
    DiskCounters,
    Interface,
    Memory,
    parse_connections,
    parse_cpu,
    parse_disks,
    parse_interfaces,
    parse_memory,
    parse_mounts,
    read_machine,
)
from barnabas.services.ingest.host.source import sample

DISKSTATS = """\
   7       0 loop0 5 0 8 0 0 0 0 0 0 0 0
   8       0 sda 100 1 2000 30 50 2 800 40 0 70 70 0 0 0 0 0 0
   8       1 sda1 90 1 1900 30 50 2 800 40 0 70 70 0 0 0 0 0 0
 259       0 nvme0n1 10 0 16 1 4 0 8 1 0 2 2 0 0 0 0 0 0
 259       1 nvme0n1p1 9 0 16 1 4 0 8 1 0 2 2 0 0 0 0 0 0
 254       0 vdb 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
"""
NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0
  eth0: 1000 10 1 0 0 0 0 0 2000 20 2 0 0 0 0 0
"""


def test_the_files_of_proc_are_read_as_kernels_write_them() -> None:
    assert parse_cpu("cpu  10 1 5 100 20 1 1 2 7 0\ncpu0 1 1 1 1\n") == Cpu(140, 100, 20)
    assert parse_disks(DISKSTATS) == {
        "sda": DiskCounters(150, 2000 * 512, 800 * 512, 70),
        "nvme0n1": DiskCounters(14, 16 * 512, 8 * 512, 2),
    }
    assert parse_interfaces(NET_DEV) == {"eth0": Interface(1000, 2000, 3)}
    assert parse_memory(
        "MemTotal: 800 kB\nMemFree: 100 kB\nMemAvailable: 300 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n"
    ) == Memory(800, 300, 10, 4)
    assert parse_connections("Ip: 1\nTcp: RtoMin CurrEstab\nTcp: 200 17\n") == 17
    assert parse_connections("") == 0
    assert parse_mounts(
        "proc /proc proc rw 0 0\n/dev/sda1 / ext4 rw 0 0\n/dev/sda1 /again ext4 rw 0 0\n"
    ) == {"/dev/sda1": "/"}


def test_this_machine_can_be_measured() -> None:
    before, now = read_machine(), read_machine()
    found = sample(before, now, 0.5)
    assert 0 <= found["cpu"] <= 100
    assert 0 <= found["io_wait"] <= 100
    assert 0 < found["memory"] <= 100
    assert found["connections"] >= 0


def test_sample_covers_the_time_between_two_polls() -> None:
    before = read_machine()._replace(
        cpu=Cpu(1000, 500, 100), disks=parse_disks(DISKSTATS), interfaces=parse_interfaces(NET_DEV)
    )
    disks = {**before.disks, "sda": DiskCounters(350, 2000 * 512 + 4096, 800 * 512, 1070)}
    now = before._replace(
        cpu=Cpu(1200, 550, 110),
        disks=disks,
        interfaces={"eth0": Interface(5000, 2000, 0), "eth1": Interface(1, 1, 1)},
        memory=Memory(1000, 250, 0, 0),
    )
    found = sample(before, now, 2.0)
    assert (found["cpu"], found["io_wait"], found["memory"], found["swap"]) == (70.0, 5.0, 75.0, 0.0)
    assert found["disks"]["sda"] == {
        "operations": 100.0,
        "read_bytes": 2048.0,
        "written_bytes": 0.0,
        "busy": 50.0,
    }
    # A counter that began again, and an interface that was not there before.
    assert found["network"] == {"eth0": {"received_bytes": 2000.0, "sent_bytes": 0.0, "errors": 0.0}}


def test_missing_proc_is_reported_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(NoProcError, match="counters of a Linux kernel"):
        read_machine(tmp_path)


def test_a_container_that_hides_files_still_has_a_cpu(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  10 1 5 100 20 1 1 2 7 0\n")
    machine = read_machine(tmp_path)
    assert (machine.cpu.total, machine.disks, machine.connections) == (140, {}, 0)
