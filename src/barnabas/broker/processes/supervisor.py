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
from typing import TYPE_CHECKING, Any

import msgspec

from barnabas.broker.companions import CompanionStart
from barnabas.broker.main import notify_service_manager, stop_signals
from barnabas.broker.processes.children import Child
from barnabas.broker.processes.companions import KeptCompanions
from barnabas.broker.processes.metrics import MetricsChild, MetricsStart, bound, run_metrics
from barnabas.broker.processes.ports import METRICS, NodeConfig, bound_ports
from barnabas.broker.processes.process import NodeService, ProcessStart, import_all, run_process
from barnabas.broker.security.tls import tls_from
from barnabas.cluster import METADATA_FOLDER, NodeProcess, broker_of
from barnabas.cluster.features import SUPPORTED_FEATURES
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
from barnabas.common.safe_logging import safe_logger
from barnabas.controller import check_ids, check_supported
from barnabas.log.dirs import kernel_boot_id

if TYPE_CHECKING:
    pass

logger = safe_logger(__name__)

STOP_SECONDS = 300.0  # for an orderly stop, which flushes all logs


class Supervisor:
    def __init__(self, node: NodeConfig, service: NodeService) -> None:
        self._node = node
        self._service = service
        self._selector = selectors.DefaultSelector()
        self._children: list[Child] = []
        self._companions = KeptCompanions()
        self._metrics: MetricsChild | None = None
        self._sessions = 0
        self._is_stopping = False
        self._is_announced = False
        self._failure = ""
        self._hub: Hub
        self._wakeup, self._wake = socket.socketpair()

    # -- start and stop -----------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT or SIGHUP. Raises before a process is forked if the node cannot be served, and
        SystemExit if a process cannot start for the first time."""
        raise_limit()
        fs, config = LocalFileSystem(), self._node.node
        folders = [folder.rstrip(os.sep) or os.sep for folder in config.log_dirs]
        dirs = NodeLogDirs(fs, folders, self._node.node_id, kernel_boot_id())
        self._children = [Child(k, listening) for k, listening in enumerate(bound_ports(self._node))]
        if config[METRICS]:
            self._metrics = MetricsChild(bound(config[METRICS]))
        dirs.lock()
        self._hub = Hub(fs, os.path.join(folders[0], METADATA_FOLDER), dirs, self._node.count)
        check_supported(self._hub.image, self._node.node_id, SUPPORTED_FEATURES)
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
        if self._failure:
            raise SystemExit(self._failure)

    def _catch_signals(self) -> None:
        self._wakeup.setblocking(False)
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in stop_signals():
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._selector.register(self._wakeup, selectors.EVENT_READ, self._drain_wakeup)
        if (pipe := self._service.ends_with) is not None:
            self._selector.register(pipe, selectors.EVENT_READ, lambda: self._pipe_closed(pipe))

    def _drain_wakeup(self) -> None:
        with suppress(BlockingIOError):
            while self._wakeup.recv(4096):
                pass

    def _pipe_closed(self, pipe: int) -> None:
        self._selector.unregister(pipe)
        self._is_stopping = True

    def _stop(self, number: int, frame: object) -> None:
        self._is_stopping = True

    # -- the loop -----------------------------------------------------------------------------------

    def _loop(self) -> None:
        ordered_at: float | None = None
        while True:
            now = time.monotonic()
            if not self._is_stopping:
                self._keep_running(now)
            elif ordered_at is None:
                if self._companions.stop(now):
                    ordered_at = now
                    self._order_stop()
            elif all(child.is_down for child in self._children) and not self._has_metrics:
                return
            elif now > ordered_at + STOP_SECONDS:
                self._kill_all()
            for key, _ in self._selector.select(self._timeout(now)):
                key.data()
            self._reap()
            self._hub.run_due(time.monotonic())

    def _keep_running(self, now: float) -> None:
        for child in self._children:
            if child.is_due(now):
                self._fork(child, now)
            else:
                child.turn_away(self._selector, now)
        self._companions.run_due(now)
        if self._metrics is not None and self._metrics.is_due(now):
            self._fork_metrics(self._metrics)

    @property
    def _has_metrics(self) -> bool:
        return self._metrics is not None and self._metrics.pid is not None

    def _timeout(self, now: float) -> float:
        due = [self._hub.due, self._companions.due]
        if not self._is_stopping:
            due += [each.fork_at for each in self._children]
            due += [] if self._metrics is None else [self._metrics.fork_at]
        return max(min([now + 1.0, *(each for each in due if each is not None)]) - now, 0.0)

    def _order_stop(self) -> None:
        """Close the ports, and let all processes flush and close their logs."""
        notify_service_manager("STOPPING=1\nSTATUS=Finishing requests, flushing logs")
        logger.info("stopping %d processes", len(self._children))
        for child in self._children:
            child.stop_turning_away(self._selector)
            child.close_ports()
            if child.link is not None:
                child.link.channel.send(StopProcess())
        if self._metrics is not None:
            self._metrics.listening.close()
            self._metrics.hang_up()

    def _kill_all(self) -> None:
        for child in self._children:
            if child.pid is not None:
                os.kill(child.pid, signal.SIGKILL)

    # -- processes ----------------------------------------------------------------------------------

    def _fork(self, child: Child, now: float) -> None:
        hub, hub_of_process = socket.socketpair()
        notes, notes_of_process = socket.socketpair()
        child.stop_turning_away(self._selector)
        is_first = self._sessions < self._node.count

        def run() -> None:
            hub.close()
            notes.close()
            self._run(child, hub_of_process, notes_of_process, removes_deleted=is_first and child.k == 0)

        pid = self._forked(run)
        for each in (hub_of_process, notes_of_process):
            each.close()
        self._sessions += 1
        link = HubProcess(self._sessions, child.k, HubChannel(hub, ToHub), HubChannel(notes, AboutLogDir))
        child.forked(pid, link, now)
        self._hub.begin(link)
        self._selector.register(link.channel, selectors.EVENT_READ, lambda: self._message(child, link))
        self._selector.register(link.notes, selectors.EVENT_READ, lambda: self._question(child, link))
        logger.info("process %d is started (pid %d)", child.k, pid)

    def _forked(self, run: Callable[[], None]) -> int:
        """Fork a process that runs nothing but this."""
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            return pid
        code: str | int | None = 1
        try:
            run()
            code = 0
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else 1)

    def _run(self, child: Child, hub: socket.socket, notes: socket.socket, *, removes_deleted: bool) -> None:
        """Run as a forked broker process."""
        ports = self._ports()
        self._forget_parent(child)
        has_companions = len(self._companions) == len(self._service.companions)
        run_process(
            ProcessStart(
                self._node.processes[child.k],
                NodeProcess(self._node.node_id, self._node.count),
                self._service._replace(companions=()) if has_companions else self._service,
                hub,
                notes,
                child.listening,
                ports,
                removes_deleted,
            )
        )

    def _fork_metrics(self, metrics: MetricsChild) -> None:
        control, control_of_process = socket.socketpair()
        ids = [broker_of(self._node.node_id, k) for k in range(self._node.count)]

        def run() -> None:
            control.close()
            self._forget_parent(None)
            run_metrics(MetricsStart(self._node.node, ids, control_of_process, metrics.listening))

        metrics.forked(self._forked(run), control)
        control_of_process.close()
        for child in self._children:
            if child.is_ready and child.link is not None:
                metrics.connect(broker_of(self._node.node_id, child.k), child.link)

    def _ports(self) -> dict[str, list[int]]:
        """Ports of all processes, by listener."""
        names = self._children[0].listening
        return {name: [each.listening[name].getsockname()[1] for each in self._children] for name in names}

    def _forget_parent(self, child: Child | None) -> None:
        """Close what belongs to the supervisor and to other processes than `child`."""
        signal.set_wakeup_fd(-1)
        for number in (*stop_signals(), signal.SIGCHLD):
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
                other.close_ports()
        self._companions.forget()
        if self._metrics is not None:
            self._metrics.hang_up()
            if child is not None:
                self._metrics.listening.close()

    def _message(self, child: Child, link: HubProcess) -> None:
        if child.link is not link:
            return  # lost by an event of the same round
        try:
            self._hub.receive(link)
        except LinkLostError:
            self._lost(child, link)
            return
        self._flush_all()
        for order in link.companions:
            self._companions.keep(CompanionStart(*msgspec.structs.astuple(order)))
        link.companions.clear()
        if link.ready is not None and not child.is_ready:
            self._ready(child, link, link.ready.lines)

    def _question(self, child: Child, link: HubProcess) -> None:
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

    def _lost(self, child: Child, link: HubProcess) -> None:
        """The process has ended, and all files that it had open are closed."""
        self._selector.unregister(link.channel)
        with suppress(KeyError):
            self._selector.unregister(link.notes)
        self._hub.end(link)
        link.channel.close()
        link.notes.close()
        child.link, child.failure = None, link.failure
        self._flush_all()
        self._when_down(child)

    def _reap(self) -> None:
        """Collect ended processes, also adopted ones if this is process 1 of a container."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            self._companions.ended(pid, code, time.monotonic())
            if self._metrics is not None and self._metrics.pid == pid:
                self._metrics.ended(code, None if self._is_stopping else time.monotonic())
            for child in self._children:
                if child.pid == pid:
                    child.pid, child.exit_code = None, code
                    self._when_down(child)

    def _when_down(self, child: Child) -> None:
        """Fork it again later. If it cannot even start, the whole node is given up, as one process would be."""
        if not child.is_down or self._is_stopping:
            return
        if child.lines is None and child.failure:
            self._failure = f"process {child.k} cannot start: {child.failure}"
            self._is_stopping = True
            return
        child.ended(time.monotonic())

    def _ready(self, child: Child, link: HubProcess, lines: list[str]) -> None:
        child.is_ready = True
        if self._metrics is not None:
            self._metrics.connect(broker_of(self._node.node_id, child.k), link)
        if child.lines is None:
            child.lines = lines
            self._announce_when_ready()

    def _announce_when_ready(self) -> None:
        lines: list[str] = []
        for child in self._children:
            if child.lines is None:
                return
            lines += child.lines
        if not self._is_announced:
            self._is_announced = True
            self._service.announce(list(dict.fromkeys(lines)))
            notify_service_manager("READY=1\nSTATUS=Serving clients")
