"""Bridge between the event loop and kazoo's threads.

Requests are coroutines on the event loop; responses, watches and session states are passed from kazoo's threads with
`call_soon_threadsafe`. Design rules, learnt from known failures of ZooKeeper clients:

- Every request has a time limit, because kazoo queues requests without limit while it is disconnected.
- A watch only wakes a reader. A reconnect wakes all readers, because watches may be missed.
- No listener of the session state sends requests to ZooKeeper.
- `is_cut_off` uses the local clock, because kazoo reports a lost session only after a server has confirmed it. The
  clock includes time in which the machine is suspended, as does ZooKeeper's.
- kazoo keeps a session alive in a separate thread, even if the event loop hangs. So the loop records a heartbeat, and
  a watchdog closes the session when the heartbeat is older than half the session timeout.
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
    NodeExistsError,
    Operation,
    OutcomeUnknownError,
    SessionLostError,
    SessionState,
    Stat,
    Wake,
    ZNode,
    ZooKeeperError,
    ZooKeeperUnusableError,
)
from barnabas.common.clock import boot_seconds
from barnabas.common.retry import Deadline
from barnabas.common.safe_logging import safe_logger

logger = safe_logger(__name__)

BEATS_PER_TIMEOUT = 6
"""Heartbeats of the loop, and probes of ZooKeeper, per session timeout."""
REPEAT_SECONDS = 0.1

T = TypeVar("T")


class ZooKeeper:
    """Connection to an ensemble; a lost session is replaced. Public methods belong to the loop that called `start`."""

    def __init__(self, settings: ZooKeeperSettings, *, now: Callable[[], float] = boot_seconds) -> None:
        self.settings = settings
        self.link = SessionState.LOST
        self.session_id = 0
        self.on_link: list[Callable[[SessionState], None]] = []
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
        """Negotiated timeout: the ensemble may change the requested one."""
        return self._timeout

    @property
    def is_cut_off(self) -> bool:
        """True if ZooKeeper may have expired the session, by the local clock. Errs on the safe side: the time is
        measured from the sending of the last request that got a response."""
        return self.link is SessionState.LOST or self._now() - self._last_contact > self._timeout

    @property
    def is_silent(self) -> bool:
        """True if several probes got no response, or the connection is known to be lost."""
        return self.link is not SessionState.CONNECTED or self._now() - self._last_contact > self._timeout / 2

    # -- lifecycle ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect and create the root node; raise ZooKeeperUnusableError if that fails."""
        self._loop = asyncio.get_running_loop()
        connected: asyncio.Future[None] = self._loop.create_future()

        def first(link: SessionState) -> None:
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
            # An authentication failure may follow the connect, and end the first request without a reason.
            reason = kazoo.refusal() if kazoo.was_refused(self._client) else error
            await self.close()
            raise self._unreachable(reason) from error
        self.on_link.remove(first)

    async def close(self) -> None:
        """End the session: its ephemeral nodes are deleted immediately."""
        self._closing.set()
        if self._beat is not None:
            self._beat.cancel()
        if self._probe is not None:
            self._probe.cancel()
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(kazoo.end, client)
        self.link = SessionState.LOST
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

    def _changed(self, client: kazoo.Client, link: SessionState, session_id: int) -> None:
        if client is not self._client:
            return
        self.link = link
        if link is SessionState.CONNECTED:
            self._connected(session_id)
        else:
            logger.warning("ZooKeeper %s: %s", self.settings, link.name.lower())
        for callback in list(self.on_link):
            callback(link)

    def _connected(self, session_id: int) -> None:
        self.session_id = session_id
        logger.info("ZooKeeper %s: connected, session 0x%x", self.settings, session_id)
        self._ask_again()  # only a response counts as contact

    def _unreachable(self, error: Exception) -> ZooKeeperUnusableError:
        reason = str(error) or f"no answer for {self.settings.connection_timeout:g} s"
        return ZooKeeperUnusableError(
            f"ZooKeeper cannot be used at {self.settings}: {reason}. Check zookeeper.connect, and that it is running."
        )

    # -- heartbeat and watchdog ---------------------------------------------------------------------

    def _keep_beating(self) -> None:
        self._stamp = self._now()
        self._beat = self._loop.call_later(self._timeout / BEATS_PER_TIMEOUT, self._keep_beating)
        if kazoo.is_over(self._client) or self._is_hopeless():
            self._replace_client()
        self._ask_again()
        self._notify_cut_off()
        self._schedule_notification()

    def _schedule_notification(self) -> None:
        """Report a cut-off when it happens, not at the next beat: other brokers act a moment later."""
        left = self._last_contact + self._timeout - self._now()
        if 0 <= left <= self._timeout / BEATS_PER_TIMEOUT:
            self._loop.call_later(left + 0.001, self._notify_cut_off)

    def _is_hopeless(self) -> bool:
        """True after a long disconnection, when a new session is safe to start.

        A ZooKeeper that was wiped or restored from an old copy silently rejects sessions that have seen newer
        transactions.
        """
        last_contact = max(self._last_contact, self._client_since)
        return self.link is not SessionState.CONNECTED and self._now() - last_contact > 2 * self._timeout

    def _replace_client(self) -> None:
        threading.Thread(target=kazoo.end, args=(self._client,), daemon=True).start()
        self._new_client()
        if self.link is not SessionState.LOST:
            self._changed(self._client, SessionState.LOST, 0)

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
            started, pause = self._now(), self._timeout / (2 * BEATS_PER_TIMEOUT)
            if self._closing.wait(pause):
                return
            if self._now() - started > 2 * pause:
                continue  # the whole process was suspended, not only the loop: give the loop time to run
            if self._loop.is_closed():
                kazoo.end(self._client)  # a broker killed within a test process
                return
            self._end_if_hung()

    def _end_if_hung(self) -> None:
        silent = self._now() - self._stamp
        if silent > self._timeout / 2 and self.link is not SessionState.LOST:
            logger.error("the event loop hung for %.1f s: ending the ZooKeeper session", silent)
            kazoo.end(self._client)
            # The only attribute set by this thread: the loop must see the cut-off as soon as it runs again.
            self.link = SessionState.LOST

    # -- requests -----------------------------------------------------------------------------------

    async def get(self, path: str, wake: Wake | None = None) -> ZNode:
        """Return a node. NoNodeError sets no watch; use `exists` for that."""
        data, stat = await self._call(lambda client: client.get_async(self._at(path), self._watch(wake)))
        return ZNode(data, kazoo.stat_of(stat))

    async def exists(self, path: str, wake: Wake | None = None) -> Stat | None:
        stat = await self._call(lambda client: client.exists_async(self._at(path), self._watch(wake)))
        return None if stat is None else kazoo.stat_of(stat)

    async def children(self, path: str, wake: Wake | None = None) -> list[str]:
        names = await self._call(lambda client: client.get_children_async(self._at(path), self._watch(wake)))
        return list(names)

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
        """Set the ACL that a new node would get."""
        acl = kazoo.acl(self.settings, public)
        await self._call(lambda client: client.set_acls_async(self._at(path), acl))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._call(lambda client: client.delete_async(self._at(path), version))

    async def sync(self) -> None:
        """Make later reads at least as new as this call."""
        await self._call(lambda client: client.sync_async(self._at("/")))

    async def multi(self, operations: list[Operation]) -> None:
        """Execute operations atomically; raise the error of the operation that failed."""
        results = await self._call(
            lambda client: kazoo.transaction(client, self.settings, operations).commit_async()
        )
        if error := kazoo.first_error(results):
            raise error

    async def ensure(self, path: str, *, absolute: bool = False) -> None:
        """Create a path with its parents, if it does not exist."""
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
            raise OutcomeUnknownError(f"no response from ZooKeeper for {self._timeout:g} s") from None
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
        """Call a function on the event loop; ignored after the loop was closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)
