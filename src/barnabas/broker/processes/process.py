"""One of several broker processes of a node, from its fork to its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from barnabas.broker.broker import Broker
from barnabas.broker.companions import BrokerCompanion, CompanionStart
from barnabas.broker.main import MakeCompanion, serve_until, stop_signals
from barnabas.broker.platform import Platform
from barnabas.broker.processes.metrics import answer_questions
from barnabas.client.security import ClientSecurity
from barnabas.cluster import Answer, Locate, NodePeers, NodeProcess, Peers
from barnabas.cluster.hub import (
    HubChannel,
    HubConnection,
    HubLogDirState,
    HubSession,
    KeepCompanion,
    NotesChannel,
    ProcessFailed,
    ToProcess,
    encode_frame,
)
from barnabas.common import child_process
from barnabas.common.lazy import import_below
from barnabas.common.safe_logging import safe_logger
from barnabas.config.broker import BrokerConfig
from barnabas.log.dirs import LogDirState
from barnabas.network import Listener, SocketServer, new_event_loop

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.network.requests import Dispatcher

logger = safe_logger(__name__)

OOM_SCORE = 100
"""Raised for processes, so that the kernel kills one of them before the supervisor, whose end is the end of all."""
FAILED = 1  # exit code of a process that has reported why

PACKAGES = (
    "barnabas.broker",
    "barnabas.cluster",
    "barnabas.common",
    "barnabas.config",
    "barnabas.controller",
    "barnabas.coordination",
    "barnabas.groups",
    "barnabas.handlers",
    "barnabas.log",
    "barnabas.metrics",
    "barnabas.network",
    "barnabas.protocol",
    "barnabas.records",
    "barnabas.replication",
    "barnabas.security",
    "barnabas.share",
    "barnabas.transactions",
)
NOT_IMPORTED = (
    "barnabas.broker.restore",
    "barnabas.cluster.zookeeper",
    "barnabas.log.compaction.worker",
    "barnabas.records.columnar",
)
"""Programs, and modules whose libraries start threads or are large; they are imported where they are configured."""


def import_all() -> None:
    """Import before the first fork: all processes run the code that was there when the node started, and share its
    memory. A module that is imported later could be of another version, if the package was upgraded meanwhile."""
    for package in PACKAGES:
        import_below(package, NOT_IMPORTED)


class NodeService(NamedTuple):
    """Parts of a node that a command adds: `lines_of` a ready broker, which `announce` prints when all are ready, and
    companions, with the address of a schema registry among them."""

    lines_of: Callable[[Broker], Awaitable[list[str]]]
    announce: Callable[[list[str]], None]
    companions: Sequence[MakeCompanion] = ()
    registry_address: str = ""
    ends_with: int | None = None
    """Descriptor of a pipe: the node stops when it is closed."""


class ProcessStart(NamedTuple):
    """Arguments of a process from the supervisor. `listening` are sockets by listener name, which stay open there;
    `ports` are those of all processes."""

    config: BrokerConfig
    process: NodeProcess
    service: NodeService
    hub: socket.socket
    notes: socket.socket
    listening: dict[str, socket.socket]
    ports: dict[str, list[int]]
    removes_deleted: bool


class _KeptCompanion:
    async def stop(self) -> None:
        """The supervisor stops it at the end of the node."""


class ProcessPlatform(Platform):
    """Platform of a process whose log dirs, ports and peers belong to its node."""

    def __init__(self, start: ProcessStart, session: HubSession) -> None:
        super().__init__()
        self._start = start
        self._session = session
        self._notes = NotesChannel(start.notes)

    def log_dir_state(self, folder: str) -> LogDirState:
        return HubLogDirState(self._notes, folder)

    def sockets(
        self,
        config: BrokerConfig,
        dispatcher: Dispatcher,
        other_hosts: Callable[[], Iterable[str]],
        *,
        is_alone: bool,
    ) -> SocketServer:
        server = super().sockets(config, dispatcher, other_hosts, is_alone=is_alone)
        for listener in server.listeners:
            listener.adopt(self._start.listening[listener.name])
        self._session.on_peer = server.serve_process
        return server

    def peers(
        self, node_id: int, answer: Answer, locate: Locate, security: ClientSecurity, *, is_alone: bool
    ) -> Peers:
        return NodePeers(node_id, answer, self._session.connect_peer)

    def companion(self, start: CompanionStart) -> BrokerCompanion:
        self._session.keep_companion(KeepCompanion(*start))
        return _KeptCompanion()

    def ports(self, listener: Listener) -> Sequence[int]:
        return self._start.ports[listener.name]


def run_process(start: ProcessStart) -> None:
    """Serve until the hub orders the stop, or a signal does. Raise SystemExit if the process cannot serve, after the
    hub has the reason."""
    os.setpgid(0, 0)  # Ctrl-C reaches the supervisor alone, which stops all in order
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.pop("NOTIFY_SOCKET", None)  # the supervisor reports to systemd
    _prefer_for_oom()
    child_process.kept_open.append(start.hub.fileno())
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(start))
    except Exception as error:
        logger.debug("the process has failed", exc_info=error)
        _report_failure(start.hub, str(error))
    except SystemExit as end:
        _report_failure(start.hub, str(end.code))


def _report_failure(hub: socket.socket, reason: str) -> NoReturn:
    hub.setblocking(True)
    with suppress(OSError):
        hub.sendall(encode_frame(ProcessFailed(reason)))
    raise SystemExit(FAILED)


def _prefer_for_oom() -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(OOM_SCORE))
    except OSError:
        return  # not Linux, or not allowed


async def _serve(start: ProcessStart) -> None:
    stop = asyncio.Event()
    session = HubSession(HubChannel(start.hub, ToProcess))
    session.on_stop = stop.set
    session.start()
    for number in stop_signals():
        if number is not signal.SIGINT:
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    cluster = HubConnection(session, start.process, removes_deleted=start.removes_deleted)
    broker = Broker(start.config, platform=ProcessPlatform(start, session), cluster=cluster)
    service = start.service
    broker.registry_address = service.registry_address

    questions: set[asyncio.Task[None]] = set()

    def monitored(end: socket.socket) -> None:
        task = asyncio.ensure_future(answer_questions(broker, end))
        questions.add(task)
        task.add_done_callback(questions.discard)

    session.on_monitor = monitored

    async def announce(ready: Broker) -> None:
        session.ready(await service.lines_of(ready))

    await serve_until(stop, broker, announce, service.companions if broker.is_first_of_node else ())
