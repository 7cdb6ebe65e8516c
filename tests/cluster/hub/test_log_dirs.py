"""The log dirs that the hub keeps for the processes of a node: deleted topics, full and failed disks."""

import errno
import socket

import pytest

from barnabas.cluster.hub import AboutLogDir, Hub, HubChannel, HubProcess, NodeLogDirs, ToHub, ToProcess
from barnabas.cluster.hub.messages import (
    HeldPartition,
    HoldsGranted,
    ReadIdentity,
    ReadOffsets,
    ReadShutdown,
    RequestHolds,
    WriteOffsets,
)
from barnabas.cluster.hub.state import CLEAN, HubState
from barnabas.common.types import TopicPartition
from barnabas.log.checkpoints import RECOVERY_POINTS
from barnabas.testing.files import FaultyFileSystem

ORDERS = TopicPartition("orders", 0)
OLD, NEW = bytes(15) + b"1", bytes(15) + b"2"


def opened(fs: FaultyFileSystem, *folders: str) -> NodeLogDirs:
    dirs = NodeLogDirs(fs, folders or ("/a",), 1, "boot")
    dirs.lock()
    dirs.open()
    return dirs


class Holder:
    """A session that holds the partition."""

    def __init__(self, dirs: NodeLogDirs) -> None:
        self.dirs = dirs
        self.state = HubState(node_stop=CLEAN)
        self.state.begin(1)
        self.state.request_holds(1, [ORDERS], 1)

    def ask(self, question: AboutLogDir) -> tuple[int, list[tuple[str, int, int]]]:
        answer = self.dirs.answer(self.state, 1, 0, 1, question)
        return answer.errno, answer.offsets


def test_what_was_noted_of_a_deleted_topic_is_removed_before_its_name_is_granted() -> None:
    holder = Holder(opened(FaultyFileSystem()))
    assert not holder.dirs.granted([HeldPartition(ORDERS, CLEAN, OLD)])
    holder.ask(WriteOffsets("/a", RECOVERY_POINTS, [("orders", 0, 7)]))
    assert not holder.dirs.granted([HeldPartition(ORDERS, CLEAN, OLD)])
    assert holder.ask(ReadOffsets("/a", RECOVERY_POINTS)) == (0, [("orders", 0, 7)])
    assert not holder.dirs.granted([HeldPartition(ORDERS, CLEAN, NEW)])
    assert holder.ask(ReadOffsets("/a", RECOVERY_POINTS)) == (0, [])


def test_a_failed_disk_is_refused_and_the_others_serve() -> None:
    fs = FaultyFileSystem()
    holder = Holder(opened(fs, "/a", "/b"))
    holder.dirs.granted([HeldPartition(ORDERS, CLEAN, OLD)])
    holder.ask(WriteOffsets("/a", RECOVERY_POINTS, [("orders", 0, 7)]))
    fs.fail_at(1, OSError(errno.EIO, "Input/output error"))
    assert not holder.dirs.granted([HeldPartition(ORDERS, CLEAN, NEW)])
    fs.heal()
    assert holder.ask(ReadShutdown("/a"))[0] == errno.EIO
    assert holder.ask(ReadIdentity("/a"))[0] == 0
    assert holder.ask(ReadShutdown("/b"))[0] == 0
    holder.dirs.close(1)


def test_a_node_starts_with_one_of_two_disks() -> None:
    fs = FaultyFileSystem()
    fs.fail_at(1, OSError(errno.EIO, "Input/output error"))
    dirs = NodeLogDirs(fs, ("/a", "/b"), 1, "boot")
    dirs.lock()
    dirs.open()
    assert Holder(dirs).ask(ReadShutdown("/a"))[0] == errno.EIO
    assert Holder(dirs).ask(ReadShutdown("/b"))[0] == 0
    fs.fail_at(1, OSError(errno.EIO, "Input/output error"))
    with pytest.raises(OSError, match="Input/output"):
        NodeLogDirs(fs, ("/c",), 1, "boot").lock()


def test_a_hold_is_withheld_while_the_disk_has_no_room_for_the_deletion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs = FaultyFileSystem()
    hub = Hub(fs, "/a/__barnabas_metadata", opened(fs), 1)
    hub.open_dirs()
    (near, far), (notes, notes_of_process) = socket.socketpair(), socket.socketpair()
    process = HubProcess(1, 0, HubChannel(near, ToHub), HubChannel(notes, AboutLogDir))
    link: HubChannel[ToProcess] = HubChannel(far, ToProcess)
    hub.begin(process)
    topic_id = OLD
    monkeypatch.setattr(hub.state, "_topic_id", lambda partition: topic_id)

    def granted(number: int) -> list[HoldsGranted]:
        HubChannel.send(link, RequestHolds(number, [ORDERS]))
        hub.receive(process)
        return received()

    def received() -> list[HoldsGranted]:
        return [each for each in link.receive() if isinstance(each, HoldsGranted)]

    assert len(granted(1)[0].granted) == 1
    hub.dirs.answer(hub.state, 1, 0, 1, WriteOffsets("/a", RECOVERY_POINTS, [("orders", 0, 7)]))
    topic_id = NEW
    fs.space = 0
    assert granted(2) == [HoldsGranted([], 2)]
    due = hub.due
    assert due is not None
    hub.run_due(due)
    assert received() == [HoldsGranted([])]
    fs.space = None
    hub.run_due(hub.due or 0.0)
    assert [[each.topic_id for each in message.granted] for message in received()] == [[NEW]]
    assert hub.due is None
    for channel in (link, process.channel, process.notes):
        channel.close()
    notes_of_process.close()
