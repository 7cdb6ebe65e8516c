"""One `/metrics` and `/health` for all processes of a node.

A process that the supervisor keeps serves them with the metrics server of a broker, and asks the broker processes: the
supervisor parses nothing from the network, and a slow disk of the hub delays no answer. The supervisor connects both by
a socket pair. A question is one byte, an answer four bytes of length and JSON.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from barnabas.broker.broker import Broker
from barnabas.broker.monitoring import secure_metrics
from barnabas.broker.security.tls import tls_from
from barnabas.broker.security.tls_reload import TlsReload
from barnabas.cluster.hub import HubChannel, HubProcess, LinkLostError, MonitorConnected
from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import safe_logger
from barnabas.common.version import __version__
from barnabas.config.broker import BrokerConfig
from barnabas.metrics import Registry, catalogue, header, sample_line
from barnabas.network import Listener, new_event_loop
from barnabas.web import MetricsServer, metrics_server_limits

logger = safe_logger(__name__)

METRICS, HEALTH = b"m", b"h"
ANSWER_SECONDS = 1.0  # a process that does not answer in time counts as down
MAX_WAITING = 8  # questions to one process that does not answer
LINES_PER_SLICE = 500
_LENGTH_BYTES = 4

Page = list[tuple[str, str]]
"""HELP and TYPE lines of each metric, and its samples."""


# -- In a broker process ---------------------------------------------------------------------------------


async def answer_questions(broker: Broker, end: socket.socket) -> None:
    """Answer the metrics process until it ends."""
    reader, writer = await asyncio.open_connection(sock=end)
    try:
        while question := await reader.read(1):
            answer = await _page(broker) if question == METRICS else broker.monitoring.health()
            data = msgspec.json.encode(answer)
            writer.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
            await writer.drain()
    except ConnectionError:
        pass  # it is started again
    finally:
        writer.close()


async def _page(broker: Broker) -> Page:
    label = ("broker", str(broker.node_id))
    page = []
    for family in broker.metrics.families():
        lines = []
        for number, sample in enumerate(family.samples(), 1):
            lines.append(sample_line(family.metric.name, sample, label))
            if number % LINES_PER_SLICE == 0:
                await asyncio.sleep(0)
        page.append((header(family.metric), "".join(lines)))
    return page


# -- In the metrics process ------------------------------------------------------------------------------


class _Connection:
    """To one broker process."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Task[bytes]] = set()

    async def ask(self, question: bytes) -> bytes | None:
        """Return None if no answer comes in time. A late one is dropped before the next question."""
        if len(self._waiting) >= MAX_WAITING:
            return None
        task = asyncio.create_task(self._ask(question))
        self._waiting.add(task)
        task.add_done_callback(self._ended)
        try:
            return await asyncio.wait_for(asyncio.shield(task), ANSWER_SECONDS)
        except (TimeoutError, OSError, EOFError):
            return None

    def _ended(self, task: asyncio.Task[bytes]) -> None:
        self._waiting.discard(task)
        if not task.cancelled():
            task.exception()  # the process has ended; also if the wait for it is over

    async def _ask(self, question: bytes) -> bytes:
        async with self._turn:
            if self._streams is None:
                self._streams = await asyncio.open_connection(sock=self._end)
            reader, writer = self._streams
            writer.write(question)
            length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
            return await reader.readexactly(length)

    def close(self) -> None:
        for task in self._waiting:
            task.cancel()
        if self._streams is not None:
            self._streams[1].close()
        else:
            self._end.close()


class NodeMetricsServer(MetricsServer):
    """`broker_ids` are those of all processes, which answer or count as down."""

    def __init__(self, config: BrokerConfig, node_id: int, broker_ids: Sequence[int]) -> None:
        super().__init__(Registry(), limits=metrics_server_limits(config))
        self._node_id = node_id
        self._connections: dict[int, _Connection | None] = dict.fromkeys(broker_ids)

    def connect(self, broker_id: int, end: socket.socket) -> None:
        """Use a connection to a process, which has been started again."""
        before = self._connections[broker_id]
        if before is not None:
            before.close()
        self._connections[broker_id] = _Connection(end)

    async def page(self) -> str:
        families: dict[str, list[str]] = {}
        answers = await self._ask(METRICS)
        for data in answers.values():
            for head, lines in () if data is None else msgspec.json.decode(data, type=Page):
                families.setdefault(head, []).append(lines)
        up = catalogue.PROCESS_UP
        families[header(up)] = [
            f'{up.name}{{broker="{broker_id}"}} {int(data is not None)}\n'
            for broker_id, data in answers.items()
        ]
        return "".join(head + "".join(lines) for head, lines in families.items())

    async def state(self) -> tuple[bool, Mapping[str, object]]:
        """Healthy if all processes are."""
        processes: dict[str, Any] = {}
        is_healthy = True
        for broker_id, data in (await self._ask(HEALTH)).items():
            is_up, details = (False, {"status": "down"}) if data is None else msgspec.json.decode(data)
            is_healthy = is_healthy and is_up
            processes[str(broker_id)] = details
        status = "up" if is_healthy else "down"
        return is_healthy, {
            "status": status,
            "version": __version__,
            "node_id": self._node_id,
            "processes": processes,
        }

    async def _ask(self, question: bytes) -> dict[int, bytes | None]:
        async def ask(connection: _Connection | None) -> bytes | None:
            return None if connection is None else await connection.ask(question)

        answers = await asyncio.gather(*map(ask, self._connections.values()))
        return dict(zip(self._connections, answers, strict=True))


class MetricsStart(NamedTuple):
    config: BrokerConfig
    broker_ids: Sequence[int]
    control: socket.socket
    listening: socket.socket


def run_metrics(start: MetricsStart) -> None:
    """Serve until the supervisor closes the control socket."""
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(start))


async def _serve(start: MetricsStart) -> None:
    config, ended = start.config, asyncio.Event()
    server = NodeMetricsServer(config, config.node_id, start.broker_ids)
    tls = tls_from(config)
    tls.reload = TlsReload(tls, config)
    secure_metrics(server, config, tls)
    tls.use(config)
    control: HubChannel[MonitorConnected] = HubChannel(start.control, MonitorConnected)

    def connected() -> None:
        try:
            for message in control.receive():
                server.connect(message.broker_id, control.take_descriptor())
        except LinkLostError:
            ended.set()

    asyncio.get_running_loop().add_reader(control.fileno(), connected)
    await server.serve(start.listening)
    await ended.wait()
    os._exit(0)


def bound(address: str) -> socket.socket:
    """A listening socket at `barnabas.metrics.listen`. Raise OSError if the port is in use."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    listener = Listener("metrics", "" if host == "*" else host or "127.0.0.1", int(port))
    try:
        listener.open()
    except OSError as error:
        raise OSError(error.errno, f"barnabas.metrics.listen={address}: {error.strerror}") from error
    return listener.detach()


# -- In the supervisor -----------------------------------------------------------------------------------

FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0


@dataclass(slots=True)
class MetricsChild:
    """The metrics process; the supervisor forks it when `fork_at` has passed."""

    listening: socket.socket
    pid: int | None = None
    control: HubChannel[MonitorConnected] | None = None
    fork_at: float | None = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_PAUSE, MAX_PAUSE, jitter=0))

    def forked(self, pid: int, control: socket.socket) -> None:
        self.pid, self.fork_at = pid, None
        self.control = HubChannel(control, MonitorConnected)

    def connect(self, broker_id: int, link: HubProcess) -> None:
        """Connect it with a broker process that has become ready."""
        if self.control is None:
            return
        near, far = socket.socketpair()
        with near, far:
            link.channel.send(MonitorConnected(broker_id), [far])
            self.control.send(MonitorConnected(broker_id), [near])

    def is_due(self, now: float) -> bool:
        return self.fork_at is not None and self.fork_at <= now

    def ended(self, code: int, now: float | None) -> None:
        """Choose the time of the next fork; without `now` there is none."""
        self.pid = None
        self.hang_up()
        if now is None:
            return
        pause = self.backoff.next_delay()
        self.fork_at = now + pause
        logger.error("the metrics process has ended (%d); it is started again in %g s", code, pause)

    def hang_up(self) -> None:
        """Let it end."""
        if self.control is not None:
            self.control.close()
            self.control = None
