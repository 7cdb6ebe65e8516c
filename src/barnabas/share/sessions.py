"""Share sessions: the partitions that a member of a share group reads from this broker (Kafka's
ShareSessionCache).

A session is opened by a fetch with epoch 0 and closed by one with epoch -1. In between each request carries
the epoch
after that of the last response, so that both sides notice a lost request or response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.types import Uuid

# -- waiting fetches of a share partition, in order of arrival -------------------------------------


class ShareWaiter(Protocol):
    def share_changed(self) -> None:
        """Retry immediately. A fetch that still finds nothing goes to the end of the queue."""
        ...


class Waiters:
    def __init__(
        self, has_news: Callable[[], bool], call_soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self._has_news = has_news
        self._call_soon = call_soon
        self._waiting: dict[ShareWaiter, None] = {}
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiter: ShareWaiter) -> None:
        self._waiting[waiter] = None

    def remove(self, waiter: ShareWaiter) -> None:
        self._waiting.pop(waiter, None)

    def wake(self) -> None:
        """Retry waiting fetches in the next loop iteration: other partitions may have records, too."""
        if self._waiting and not self._scheduled and self._has_news():
            self._scheduled = True
            self._call_soon(self._ask_each)

    def _ask_each(self) -> None:
        self._scheduled = False
        for _ in range(len(self._waiting)):
            first = next(iter(self._waiting), None)
            if first is None or not self._has_news():
                return
            del self._waiting[first]
            first.share_changed()


INITIAL_EPOCH = 0
FINAL_EPOCH = -1
LEASE_PREFIX = "lease-"
"""Members with this id prefix keep their records when the connection closes. A Barnabas extension."""
UNBOUNDED = 2**31 - 1
_LAST_EPOCH = 2**31 - 1


class TopicIdPartition(NamedTuple):
    """A partition, identified by topic id."""

    topic_id: Uuid
    partition: int


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class ShareSession:
    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(self, key: SessionKey, connection: object) -> None:
        self.key = key
        self.connection = connection
        self.epoch = 1
        """The epoch expected in the next request."""
        self.partitions: dict[TopicIdPartition, None] = {}

    def update(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        for tp in added:
            self.partitions.setdefault(tp)
        for tp in forgotten:
            self.partitions.pop(tp, None)

    def pass_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise KafkaError(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH, f"epoch {self.epoch} was expected, not {epoch}"
            )
        self.epoch = epoch + 1 if epoch < _LAST_EPOCH else 1


class ShareSessions:
    """All sessions of a broker. Sessions are never evicted: a member without a session gets no records."""

    def __init__(self, limit: int, max_partitions: int = UNBOUNDED) -> None:
        self._most = limit
        self.max_partitions = max_partitions
        self.partition_count = 0
        self.refused = 0
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._members: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def has_members(self, group_id: str) -> bool:
        return group_id in self._members

    def open(self, key: SessionKey, connection: object) -> ShareSession:
        """Open a session, replacing an older one of this member."""
        if key not in self._sessions:
            if len(self._sessions) >= self._most:
                self.refused += 1
                raise KafkaError(
                    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                    "too many share sessions on this broker (group.share.max.share.sessions)",
                )
            self._members[key.group_id] = self._members.get(key.group_id, 0) + 1
        else:
            self.partition_count -= len(self._sessions[key].partitions)
        session = self._sessions[key] = ShareSession(key, connection)
        return session

    def update(
        self,
        session: ShareSession,
        added: Iterable[TopicIdPartition],
        forgotten: Iterable[TopicIdPartition] = (),
    ) -> None:
        """Change the partitions of a session; if the total limit is exceeded, the session becomes empty."""
        before = len(session.partitions)
        session.update(added, forgotten)
        self.partition_count += len(session.partitions) - before
        if self.partition_count > self.max_partitions and len(session.partitions) > before:
            self.refused += 1
            self.partition_count -= len(session.partitions)
            session.partitions.clear()
            raise KafkaError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                "the share sessions of this broker have as many partitions as barnabas.fetch.session.max.partitions "
                "allows",
            )

    def peek(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def find(self, key: SessionKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def close(self, session: ShareSession) -> bool:
        """Close a session; return True if it was the member's current one."""
        if self._sessions.get(session.key) is not session:
            return False
        del self._sessions[session.key]
        self.partition_count -= len(session.partitions)
        group_id = session.key.group_id
        self._members[group_id] -= 1
        if not self._members[group_id]:
            del self._members[group_id]
        return True
