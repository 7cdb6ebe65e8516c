"""Broker process: start, announce, wait for a signal, stop cleanly."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING

from barnabas.broker.broker import Broker
from barnabas.cluster.deltas import Delta, PartitionChanged, PartitionsAdded, TopicCreated
from barnabas.cluster.image import MetadataImage
from barnabas.common.descriptors import raise_limit, room_for_connections
from barnabas.common.safe_logging import safe_logger
from barnabas.config.broker import BrokerConfig
from barnabas.network import new_event_loop

if TYPE_CHECKING:
    from barnabas.broker.companions import BrokerCompanion

# -- Garbage collector settings that avoid long pauses of the event loop -------------------------------

# Thresholds of generations 0, 1 and 2. A generation 1 collection covers at most about 20,000 objects, which takes
# 5 ms: while a large request is decoded, all of them are alive. A full collection runs after about ten million
# objects.
THRESHOLDS = (5_000, 2, 700)
MANY_PARTITIONS = 100


def collect_rarely() -> None:
    gc.set_threshold(*THRESHOLDS)


def keep_all() -> None:
    """Exclude all live objects from future collections (`gc.freeze`)."""
    gc.collect(1)  # do not freeze recent garbage
    gc.freeze()


def keep_many(image: MetadataImage, deltas: Collection[Delta]) -> None:
    """Freeze live objects after a large metadata change. Runs after the change was applied."""
    if sum(map(_partitions_in, deltas)) >= MANY_PARTITIONS:
        keep_all()


def _partitions_in(delta: Delta) -> int:
    if isinstance(delta, TopicCreated):
        return len(delta.topic.partitions)
    if isinstance(delta, PartitionsAdded):
        return len(delta.partitions)
    return isinstance(delta, PartitionChanged)


logger = safe_logger(__name__)

FEW_CONNECTIONS = 1000  # below this, warn even if max.connections has its default


MakeCompanion = Callable[[Broker], Awaitable["BrokerCompanion"]]


def run(
    config: BrokerConfig,
    announce: Callable[[Broker], Awaitable[None]],
    companions: Sequence[MakeCompanion] = (),
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP, until all log dirs have failed, or until the metadata cannot be followed.

    `announce` is called once the broker serves clients. `companions` start what stops before the broker: child
    processes, or tasks.
    """
    raise_limit()
    _warn_of_few_descriptors(config)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(config, announce, companions))


def stop_signals() -> list[signal.Signals]:
    """Signals that stop a broker cleanly, as those of a JVM do: SIGHUP, too, unless it is started by `nohup`."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, signal.SIGINT, *hang_up]


def _warn_of_few_descriptors(config: BrokerConfig) -> None:
    room, wanted = room_for_connections(), config["max.connections"]
    if room < wanted and (room < FEW_CONNECTIONS or "max.connections" in config.static):
        logger.warning(
            "max.connections is %d, but the limit of open files allows only %d: raise the "
            "limit (ulimit -n, or LimitNOFILE of systemd) if you need more",
            wanted,
            room,
        )


async def _serve(
    config: BrokerConfig,
    announce: Callable[[Broker], Awaitable[None]],
    companions: Sequence[MakeCompanion],
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, stop.set)
    await serve_until(stop, Broker(config), announce, companions)


async def serve_until(
    stop: asyncio.Event,
    broker: Broker,
    announce: Callable[[Broker], Awaitable[None]],
    companions: Sequence[MakeCompanion] = (),
) -> None:
    """Start a broker, serve until `stop` is set or nothing can be served any more, and stop it in order."""
    broker.on_all_dirs_failed = stop.set
    has_failed = asyncio.Event()

    def metadata_failed() -> None:
        has_failed.set()
        stop.set()

    broker.on_metadata_failed = metadata_failed
    collect_rarely()
    await broker.start()
    keep_all()
    broker.metadata.on_commit.append(keep_many)
    await announce(broker)
    running = [await make(broker) for make in companions]
    notify_service_manager("READY=1\nSTATUS=Serving clients")
    await stop.wait()
    notify_service_manager("STOPPING=1\nSTATUS=Finishing requests, flushing logs")
    for companion in running:
        await companion.stop()
    logger.info("stopping: finishing requests, flushing logs")
    await broker.stop()
    if has_failed.is_set():
        raise SystemExit("the metadata cannot be applied any further; the reason is in the log above")
    if len(broker.logs.offline_dirs) == len(broker.logs.dirs):
        raise SystemExit("all log dirs have failed; the disk errors are in the log above")


def notify_service_manager(state: str) -> None:
    """Report to systemd if it started this process (sd_notify; `Type=notify` of a unit)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address  # abstract, or a path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
            datagram.sendto(state.encode(), name)
    except OSError as error:
        logger.warning("cannot notify systemd at %s: %s", address, error)
