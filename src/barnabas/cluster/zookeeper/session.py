"""The bridge to ZooKeeper: from the event loop to kazoo's threads and back.

Requests are coroutines of the event loop; answers, watches and states of the session cross from kazoo's threads with
`call_soon_threadsafe`. What was learnt from others' failures is built in:

- Every request has a time limit of its own, because kazoo queues requests without end while it is not connected.
- A watch only wakes a reader up. Reconnecting wakes all readers up, because watches may be missed.
- No listener of the session's state asks ZooKeeper for anything.
- `is_cut_off` goes by our own clock: kazoo calls a session lost only when a server has said so. It is the clock that
  runs on while the machine is suspended: ZooKeeper's does.
- kazoo keeps a session alive from a thread of its own, even if our loop hangs. So the loop stamps a heartbeat, and
  a watchdog closes the session when the stamp is older than half the session timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from barnabas.cluster.zookeeper import kazoo_client as kazoo
from barnabas.cluster.zookeeper.settings import ZooKeeperSettings
from barnabas.cluster.zookeeper.types import (
    ANY_VERSION,
    Link,
    Node,
    NodeExistsError,
    Operation,
    OutcomeUnknownError,
    SessionLostError,
    Stat,
    Wake,
    ZooKeeperError,
    ZooKeeperUnusableError,
)
from barnabas.common.clock import boot_seconds
from barnabas.common.retry import Deadline
from barnabas.common.safe_logging import safe_logger

logger = safe_logger(__name__)

BEATS_PER_TIMEOUT = 6
"""How often the loop stamps its heartbeat and asks ZooKeeper whether it is there."""
REPEAT_SECONDS = 0.1

T = TypeVar("T")


class ZooKeeper:
    """One session after another with an ensemble. Everything public belongs to the loop that called `start`."""

    def __init__(self, settings: ZooKeeperSettings, *, now: Callable[[], float] = boot_seconds) -> None:
        self.settings = settings
        self.link = Link.LOST
        self.session_id = 0
        self.on_link: list[Callable[[Link], None]] = []
        self.on_cut_off: list[Callable[[bool], None]] = []
        self._now = now
        self._timeout = settings.session_timeout
        self._last_contact = now()
        self._was_cut_off = False
        self._stamp = now()
        self._client: Any = None
        self._client_since = now()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._watchdog = threading.Thread(target=self._watch_the_loop, name="zookeeper watchdog", daemon=True)
        self._closing = threading.Event()
        self._beat: asyncio.TimerHandle | None = None
        self._probe: asyncio.Task[None] | None = None

    @property
    def session_timeout(self) -> float:
        """As negotiated: the ensemble may shorten what we ask for."""
        return self._timeout

    @property
    def is_cut_off(self) -> bool:
        """Whether by our own clock ZooKeeper may have given our session up. Never wrong in the other direction:
        time counts from when the last answered request was sent."""
        return self.link is Link.LOST or self._now() - self._last_contact > self._timeout

    @property
    def is_silent(self) -> bool:
        """Whether ZooKeeper has missed some of our questions, or the connection is known to be gone."""
        return self.link is not Link.CONNECTED or self._now() - self._last_contact > self._timeout / 2

    # -- life ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect and make the root, or say what is wrong."""
        self._loop = asyncio.get_running_loop()
        connected: asyncio.Future[None] = self._loop.create_future()

        def first(link: Link) -> None:
            if not connected.done():
                connected.set_result(None)

        self.on_link.append(first)
        self._new_client()
        self._watchdog.start()
        self._keep_beating()
        try:
            async with asyncio.timeout(self.settings.connection_timeout):
                await connected
            if kazoo.was_refused(self._client):
                raise kazoo.refusal()
            await self.repeat(lambda: self.ensure(self.settings.root or "/", absolute=True))
        except (TimeoutError, ZooKeeperError) as error:
            # A refusal may come after the link, and end the first request without a word of the reason.
            reason = kazoo.refusal() if kazoo.was_refused(self._client) else error
            await self.close()
            raise self._unreachable(reason) from error
        self.on_link.remove(first)

    async def close(self) -> None:
        """End the session: ephemeral nodes go at once."""
        self._closing.set()
        if self._beat is not None:
            self._beat.cancel()
        if self._probe is not None:
            self._probe.cancel()
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(kazoo.end, client)
        self.link = Link.LOST
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(SessionLostError("the session was closed"))

    def _new_client(self) -> None:
        self._client_since = self._now()
        self._client = kazoo.start_client(
            self.settings,
            lambda client, link, session_id: self._post(self._changed, client, link, session_id),
            lambda seconds: self._post(self._negotiated, seconds),
        )

    def _negotiated(self, seconds: float) -> None:
        self._timeout = seconds

    def _changed(self, client: kazoo.Client, link: Link, session_id: int) -> None:
        if client is not self._client:
            return
        self.link = link
        if link is Link.CONNECTED:
            self._connected(session_id)
        else:
            logger.warning("ZooKeeper %s: %s", self.settings, link.name.lower())
        for callback in list(self.on_link):
            callback(link)

    def _connected(self, session_id: int) -> None:
        self.session_id = session_id
        logger.info("ZooKeeper %s: connected, session 0x%x", self.settings, session_id)
        self._ask_again()  # contact, for our clock, is when a request has been answered

    def _unreachable(self, error: Exception) -> ZooKeeperUnusableError:
        reason = str(error) or f"no answer for {self.settings.connection_timeout:g} s"
        return ZooKeeperUnusableError(
            f"ZooKeeper cannot be used at {self.settings}: {reason}. Check zookeeper.connect, and that it is running."
        )

    # -- the two clocks -----------------------------------------------------------------------------

    def _keep_beating(self) -> None:
        self._stamp = self._now()
        self._beat = self._loop.call_later(self._timeout / BEATS_PER_TIMEOUT, self._keep_beating)
        if kazoo.is_over(self._client) or self._is_hopeless():
            self._replace_client()
        self._ask_again()
        self._notify_cut_off()
        self._schedule_notification()

    def _schedule_notification(self) -> None:
        """To be cut off is told when it happens, not with the next beat: the others act a moment later."""
        left = self._last_contact + self._timeout - self._now()
        if 0 <= left <= self._timeout / BEATS_PER_TIMEOUT:
            self._loop.call_later(left + 0.001, self._notify_cut_off)

    def _is_hopeless(self) -> bool:
        """A ZooKeeper that was wiped, or restored from an old copy, turns down sessions that have seen newer things,
        and says nothing. A broker that is cut off for long has nothing to lose by a new session."""
        heard = max(self._last_contact, self._client_since)
        return self.link is not Link.CONNECTED and self._now() - heard > 2 * self._timeout

    def _replace_client(self) -> None:
        threading.Thread(target=kazoo.end, args=(self._client,), daemon=True).start()
        self._new_client()
        if self.link is not Link.LOST:
            self._changed(self._client, Link.LOST, 0)

    def _ask_again(self) -> None:
        if self._probe is None or self._probe.done():
            self._probe = self._loop.create_task(self._ask())

    async def _ask(self) -> None:
        with contextlib.suppress(ZooKeeperError):
            await self.exists("/")
        self._notify_cut_off()

    def _notify_cut_off(self) -> None:
        cut_off = self.is_cut_off
        if cut_off is not self._was_cut_off:
            self._was_cut_off = cut_off
            for callback in list(self.on_cut_off):
                callback(cut_off)

    def _watch_the_loop(self) -> None:
        while True:
            began, pause = self._now(), self._timeout / (2 * BEATS_PER_TIMEOUT)
            if self._closing.wait(pause):
                return
            if self._now() - began > 2 * pause:
                continue  # the whole process stood still, not the loop alone: let it run before it is judged
            if self._loop.is_closed():
                kazoo.end(self._client)  # a broker that was killed inside of a test: nobody else would
                return
            self._end_if_hung()

    def _end_if_hung(self) -> None:
        silent = self._now() - self._stamp
        if silent > self._timeout / 2 and self.link is not Link.LOST:
            logger.error("the event loop hung for %.1f s: ending the ZooKeeper session", silent)
            kazoo.end(self._client)
            # The one thing that this thread sets: the loop must find itself cut off as soon as it wakes up.
            self.link = Link.LOST

    # -- requests -----------------------------------------------------------------------------------

    async def get(self, path: str, wake: Wake | None = None) -> Node:
        """NoNodeError sets no watch: ask `exists` for that."""
        data, stat = await self._call(lambda client: client.get_async(self._at(path), self._watch(wake)))
        return Node(data, kazoo.stat_of(stat))

    async def exists(self, path: str, wake: Wake | None = None) -> Stat | None:
        found = await self._call(lambda client: client.exists_async(self._at(path), self._watch(wake)))
        return None if found is None else kazoo.stat_of(found)

    async def children(self, path: str, wake: Wake | None = None) -> list[str]:
        found = await self._call(lambda client: client.get_children_async(self._at(path), self._watch(wake)))
        return list(found)

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False, public: bool = False) -> Stat:
        acl = kazoo.acl(self.settings, public)
        _, stat = await self._call(
            lambda client: client.create_async(
                self._at(path), data, acl=acl, ephemeral=ephemeral, include_data=True
            )
        )
        return kazoo.stat_of(stat)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return kazoo.stat_of(await self._call(lambda client: client.set_async(self._at(path), data, version)))

    async def set_acl(self, path: str, *, public: bool) -> None:
        """Give a node the rights that it would be made with now."""
        acl = kazoo.acl(self.settings, public)
        await self._call(lambda client: client.set_acls_async(self._at(path), acl))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._call(lambda client: client.delete_async(self._at(path), version))

    async def sync(self) -> None:
        """What is read from now on is at least as new as this moment."""
        await self._call(lambda client: client.sync_async(self._at("/")))

    async def multi(self, operations: list[Operation]) -> None:
        """All of it or nothing; the error is that of the operation which failed."""
        results = await self._call(
            lambda client: kazoo.transaction(client, self.settings, operations).commit_async()
        )
        if error := kazoo.first_error(results):
            raise error

    async def ensure(self, path: str, *, absolute: bool = False) -> None:
        """Make a path and everything above it, if it is not there yet."""
        full = path if absolute else self._at(path)
        parts = full.strip("/").split("/")
        acl = kazoo.acl(self.settings, public=True)
        for end in range(1, len(parts) + 1):
            part = "/" + "/".join(parts[:end])
            if part != "/":
                with contextlib.suppress(NodeExistsError):
                    await self._call(lambda client, part=part: client.create_async(part, b"", acl=acl))  # type: ignore[misc]

    async def repeat(self, work: Callable[[], Awaitable[T]]) -> T:
        """Repeat idempotent requests while the connection or the session is lost, for at most
        zookeeper.connection.timeout.ms after the first failure.
        """
        deadline: Deadline | None = None
        while True:
            try:
                return await work()
            except OutcomeUnknownError as error:
                if deadline is None:
                    deadline = Deadline(self.settings.connection_timeout)
                    logger.warning("ZooKeeper %s: %s; retrying", self.settings, error)
                if self._client is None or kazoo.was_refused(self._client) or deadline.passed:
                    raise
                await asyncio.sleep(REPEAT_SECONDS)

    async def _call(self, send: Callable[[Any], Any]) -> Any:
        client = self._client
        if client is None:
            raise SessionLostError("the session was closed")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.add(future)
        sent = self._now()
        send(client).rawlink(lambda result: self._post(kazoo.settle, future, result))
        try:
            async with asyncio.timeout(self._timeout):
                answer = await future
        except TimeoutError:
            raise OutcomeUnknownError(f"ZooKeeper has not answered for {self._timeout:g} s") from None
        except OutcomeUnknownError:
            raise
        except ZooKeeperError:
            self._heard(sent)
            raise
        finally:
            self._waiting.discard(future)
        self._heard(sent)
        return answer

    def _heard(self, sent: float) -> None:
        self._last_contact = max(self._last_contact, sent)

    def _at(self, path: str) -> str:
        return self.settings.root + path if path != "/" else self.settings.root or "/"

    def _watch(self, wake: Wake | None) -> Callable[[Any], None] | None:
        return None if wake is None else lambda event: self._post(wake)

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Into the loop; nobody misses what comes after the loop was closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)
