"""Selection of waiters for new records of a share partition."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.share.sessions import Waiters


class Queue:
    """Records available to any waiter, and a manual loop."""

    def __init__(self) -> None:
        self.records = 0
        self.soon: list[Callable[[], None]] = []
        self.waiters = Waiters(lambda: self.records > 0, self.soon.append)

    def bring(self, count: int) -> None:
        self.records += count
        self.waiters.wake()
        while self.soon:
            self.soon.pop(0)()


class Member:
    def __init__(self, queue: Queue, *, takes: int = 1) -> None:
        self.queue, self.takes = queue, takes
        self.asked = self.taken = 0
        queue.waiters.add(self)

    def share_changed(self) -> None:
        self.asked += 1
        if self.takes:
            self.queue.records -= self.takes
            self.taken += self.takes
        else:
            self.queue.waiters.add(self)


def test_record_wakes_the_waiter_that_waits_longest() -> None:
    queue = Queue()
    members = [Member(queue) for _ in range(8)]
    queue.bring(1)
    assert [member.asked for member in members] == [1, 0, 0, 0, 0, 0, 0, 0]
    queue.bring(2)
    assert [member.asked for member in members] == [1, 1, 1, 0, 0, 0, 0, 0]
    assert len(queue.waiters) == 5


def test_blocked_reader_does_not_block_others() -> None:
    queue = Queue()
    unable, able = Member(queue, takes=0), Member(queue)
    queue.bring(1)
    assert (unable.asked, able.taken) == (1, 1)


def test_members_are_asked_once_about_the_same_change() -> None:
    queue = Queue()
    members = [Member(queue, takes=0) for _ in range(3)]
    queue.bring(1)
    assert [member.asked for member in members] == [1, 1, 1]


def test_disconnected_member_is_not_asked() -> None:
    queue = Queue()
    departed, there = Member(queue), Member(queue)
    queue.waiters.remove(departed)
    queue.bring(1)
    assert (departed.asked, there.asked) == (0, 1)


def test_nothing_happens_while_there_is_nothing_to_take() -> None:
    queue = Queue()
    member = Member(queue)
    queue.bring(0)
    assert member.asked == 0
