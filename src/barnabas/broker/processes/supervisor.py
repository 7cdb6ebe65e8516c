"""The supervisor of a node's processes: one thread, no event loop, no clients.

It locks the log dirs, binds the ports of all processes, keeps the metadata log and the holds (`cluster/hub`), and forks
the processes. One that ends is forked again; its listening sockets stay open meanwhile, so that clients wait in their
backlog. When the supervisor ends, however it ends, all processes do.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas.broker.processes.ports import NodeConfig
from barnabas.broker.processes.process import ProcessStart, import_all, run_process
from barnabas.broker.security.tls import tls_from
from barnabas.cluster import METADATA_FOLDER, NodeProcess
from barnabas.cluster.hub import (
    AboutLogDir,
    Hub,
    HubChannel,
    HubProcess,
    LinkLostError,
    NodeLogDirs,
    StopProcess,
    ToHub,
)
from barnabas.common.descriptors import raise_limit
from barnabas.common.files import LocalFileSystem
from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import safe_logger
from barnabas.controller import check_ids
from barnabas.log.dirs import kernel_boot_id
from barnabas.network import Listener

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.config.broker import BrokerConfig
    from barnabas.config.listeners import ListenerSpec

logger = safe_logger(__name__)

FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0
LONG_ENOUGH = 60.0  # uptime after which the next fork is immediate again
TURN_AWAY_SECONDS = 2.0  # down for longer: its ports accept and close, so that clients look elsewhere
ORDERLY_PAUSE = 1.0  # after an orderly stop of one process: the supervisor's own SIGTERM may be on its way
STOP_SECONDS = 300.0  # for an orderly stop, which flushes all logs
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True)
class _Child:
    """Process k of the node; `pid` is None while it is down."""

    k: int
    listening: dict[str, socket.socket]
    pid: int | None = None
    link: HubProcess | None = None
    forked_at: float = 0.0
    fork_at: float | None = 0.0
    down_since: float = 0.0
    exit_status: int | None = None
    turns_away: bool = False
    backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_PAUSE, MAX_PAUSE, jitter=0))


class Supervisor:
    """`lines_of` is what `serve` prints about a broker that is ready; `announce` prints all lines, once."""

    def __init__(
        self, node: NodeConfig, lines_of: Callable[[Broker], list[str]], announce: Callable[[list[str]], None]
    ) -> None:
        self._node = node
        self._lines_of = lines_of
        self._announce = announce
        self._selector = selectors.DefaultSelector()
        self._children: list[_Child] = []
        self._sessions = 0
        self._is_stopping = False
        self._is_announced = False
        self._hub: Hub
        self._wakeup, self._wake = socket.socketpair()

    # -- start and stop -----------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT. Raises before a process is forked if the node cannot be served."""
        raise_limit()
        fs, config = LocalFileSystem(), self._node.node
        folders = [folder.rstrip(os.sep) or os.sep for folder in config.log_dirs]
        dirs = NodeLogDirs(fs, folders, self._node.node_id, kernel_boot_id())
        self._children = [_Child(k, listening) for k, listening in enumerate(self._listen())]
        dirs.lock()
        self._hub = Hub(fs, os.path.join(folders[0], METADATA_FOLDER), dirs, self._node.count)
        check_ids(self._hub.image, self._node.node_id, self._node.count)
        self._hub.open_dirs()
        tls_from(config)  # makes the certificates of `barnabas.tls.auto`, once for all processes
        import_all()
        gc.collect()
        gc.freeze()
        self._catch_signals()
        try:
            self._loop()
        finally:
            self._hub.close()
            dirs.close(self._node.count)

    def _listen(self) -> list[dict[str, socket.socket]]:
        """Bind the ports of all processes. Raise OSError if one is in use."""
        return [
            {spec.name: self._bound(config, spec) for spec in config.listeners}
            for config in self._node.processes
        ]

    @staticmethod
    def _bound(config: BrokerConfig, spec: ListenerSpec) -> socket.socket:
        listener = Listener(
            spec.name,
            spec.host,
            spec.port,
            backlog=config["socket.listen.backlog.size"],
            receive_buffer=config["socket.receive.buffer.bytes"],
            send_buffer=config["socket.send.buffer.bytes"],
        )
        listener.open()
        return listener.detach()

    def _catch_signals(self) -> None:
        self._wakeup.setblocking(False)
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._selector.register(self._wakeup, selectors.EVENT_READ, self._drain_wakeup)

    def _drain_wakeup(self) -> None:
        with suppress(BlockingIOError):
            while self._wakeup.recv(4096):
                pass

    def _stop(self, number: int, frame: object) -> None:
        self._is_stopping = True

    # -- the loop -----------------------------------------------------------------------------------

    def _loop(self) -> None:
        ordered_at: float | None = None
        while True:
            now = time.monotonic()
            if self._is_stopping:
                if ordered_at is None:
                    ordered_at = now
                    self._order_stop()
                if all(child.pid is None and child.link is None for child in self._children):
                    return
                if now > ordered_at + STOP_SECONDS:
                    self._kill_all()
            else:
                self._fork_due(now)
                self._turn_away(now)
            for key, _ in self._selector.select(self._timeout(now)):
                key.data()
            self._reap()
            self._hub.answer_appends(time.monotonic())

    def _timeout(self, now: float) -> float:
        due = [now + 1.0]
        if self._hub.due is not None:
            due.append(self._hub.due)
        if not self._is_stopping:
            due += [each.fork_at for each in self._children if each.fork_at is not None]
        return max(min(due) - now, 0.0)

    def _order_stop(self) -> None:
        """Close the ports, and let all processes flush and close their logs."""
        logger.info("stopping %d processes", len(self._children))
        for child in self._children:
            self._stop_turning_away(child)
            for listening in child.listening.values():
                listening.close()
            if child.link is not None:
                child.link.channel.send(StopProcess())

    def _kill_all(self) -> None:
        for child in self._children:
            if child.pid is not None:
                os.kill(child.pid, signal.SIGKILL)

    # -- processes ----------------------------------------------------------------------------------

    def _fork_due(self, now: float) -> None:
        for child in self._children:
            if (
                child.fork_at is not None
                and child.fork_at <= now
                and child.pid is None
                and child.link is None
            ):
                self._fork(child, now)

    def _fork(self, child: _Child, now: float) -> None:
        hub, hub_of_process = socket.socketpair()
        notes, notes_of_process = socket.socketpair()
        self._stop_turning_away(child)
        is_first = self._sessions < self._node.count
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            for each in (hub, notes):
                each.close()
            self._become(child, hub_of_process, notes_of_process, removes_deleted=is_first and child.k == 0)
        for each in (hub_of_process, notes_of_process):
            each.close()
        self._sessions += 1
        child.pid, child.forked_at, child.fork_at, child.exit_status = pid, now, None, None
        link = child.link = HubProcess(
            self._sessions, child.k, HubChannel(hub, ToHub), HubChannel(notes, AboutLogDir)
        )
        self._hub.begin(link)
        self._selector.register(link.channel, selectors.EVENT_READ, lambda: self._message(child, link))
        self._selector.register(link.notes, selectors.EVENT_READ, lambda: self._question(child, link))
        logger.info("process %d is started (pid %d)", child.k, pid)

    def _become(
        self, child: _Child, hub: socket.socket, notes: socket.socket, *, removes_deleted: bool
    ) -> None:
        """Run as the forked process; never returns."""
        code = 1
        try:
            self._forget_parent(child)
            start = ProcessStart(
                self._node.processes[child.k],
                NodeProcess(self._node.node_id, self._node.count),
                hub,
                notes,
                child.listening,
                removes_deleted,
            )
            run_process(start, self._lines_of)
            code = 0
        except SystemExit as end:
            if isinstance(end.code, str):
                sys.stderr.write(f"process {child.k}: {end.code}\n")
            code = end.code if isinstance(end.code, int) else 1
        except Exception as error:
            logger.debug("process %d has failed", child.k, exc_info=error)
            sys.stderr.write(f"process {child.k}: {error}\n")
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _forget_parent(self, child: _Child) -> None:
        """Close what belongs to the supervisor and to other processes."""
        signal.set_wakeup_fd(-1)
        for number in (*_SIGNALS, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        self._selector.close()
        self._wakeup.close()
        self._wake.close()
        self._hub.close()
        for other in self._children:
            if other.link is not None:
                other.link.channel.close()
                other.link.notes.close()
            if other is not child:
                for listening in other.listening.values():
                    listening.close()

    def _message(self, child: _Child, link: HubProcess) -> None:
        if child.link is not link:
            return  # lost by an event of the same round
        try:
            self._hub.receive(link)
        except LinkLostError:
            self._lost(child, link)
            return
        self._flush_all()
        self._announce_when_ready()

    def _question(self, child: _Child, link: HubProcess) -> None:
        if child.link is not link:
            return
        try:
            self._hub.receive_question(link)
        except LinkLostError:
            self._selector.unregister(link.notes)
            return
        self._flush_all()

    def _flush_all(self) -> None:
        """Watch for room where output is queued, and give up a process that does not read."""
        for child in self._children:
            link = child.link
            if link is None or link.channel.fileno() < 0:
                continue
            self._flush(link.channel)
            self._flush(link.notes)
            if link.channel.is_overfull and child.pid is not None:
                logger.error("process %d does not read what the hub sends: it is killed", child.k)
                os.kill(child.pid, signal.SIGKILL)

    def _flush(self, channel: HubChannel[Any]) -> None:
        channel.flush()
        key = self._selector.get_map().get(channel)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.has_output else 0)
        if key is not None and key.events != wanted:
            self._selector.modify(channel, wanted, key.data)

    def _lost(self, child: _Child, link: HubProcess) -> None:
        """The process has ended, and all files that it had open are closed."""
        self._selector.unregister(link.channel)
        with suppress(KeyError):
            self._selector.unregister(link.notes)
        self._hub.end(link)
        link.channel.close()
        link.notes.close()
        child.link = None
        self._flush_all()

    def _reap(self) -> None:
        """Collect ended processes, also adopted ones if this is process 1 of a container."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for child in self._children:
                if child.pid == pid:
                    self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: _Child, code: int) -> None:
        now = time.monotonic()
        child.pid, child.down_since, child.exit_status = None, now, code
        if self._is_stopping:
            return
        if now - child.forked_at > LONG_ENOUGH:
            child.backoff.reset()
        if code == 0:
            pause = ORDERLY_PAUSE
        elif code == -signal.SIGKILL and child.backoff.is_fresh:
            pause = 0.0
            child.backoff.next_delay()
        else:
            pause = child.backoff.next_delay()
        child.fork_at = now + pause
        logger.error("process %d has ended (%s); it is started again in %g s", child.k, _reason(code), pause)

    def _announce_when_ready(self) -> None:
        links = [child.link for child in self._children]
        if self._is_announced or not all(link is not None and link.ready is not None for link in links):
            return
        self._is_announced = True
        lines = [
            line for link in links if link is not None and link.ready is not None for line in link.ready.lines
        ]
        self._announce(list(dict.fromkeys(lines)))

    # -- ports of processes that are down -------------------------------------------------------------

    def _turn_away(self, now: float) -> None:
        for child in self._children:
            is_long = child.pid is None and child.link is None and now - child.down_since > TURN_AWAY_SECONDS
            if is_long and child.exit_status is not None and not child.turns_away:
                child.turns_away = True
                for listening in child.listening.values():
                    self._selector.register(
                        listening, selectors.EVENT_READ, lambda each=listening: _accept_and_close(each)
                    )

    def _stop_turning_away(self, child: _Child) -> None:
        if child.turns_away:
            child.turns_away = False
            for listening in child.listening.values():
                self._selector.unregister(listening)


def _accept_and_close(listening: socket.socket) -> None:
    with suppress(OSError):
        listening.accept()[0].close()


def _reason(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
