"""Startup, metadata updates and shutdown of a broker. `parts` builds its components."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from barnabas.broker.controlled_shutdown import IN_FLIGHT_SECONDS
from barnabas.broker.current_settings import ConfiguredBroker
from barnabas.cluster import is_on_node, represented
from barnabas.cluster.deltas import Delta
from barnabas.cluster.image import MetadataImage
from barnabas.common.safe_logging import line_limit, safe_logger
from barnabas.common.types import TopicPartition
from barnabas.log.dirs import WRITERS, LoadReport, make_private
from barnabas.log.recovery import ShutdownKind

logger = safe_logger(__name__)

CREATED_ON_THE_LOOP = 2  # partitions; the log files of larger topics are created in a thread


class Broker(ConfiguredBroker):
    """A broker. Not thread-safe: create and use it on a single event loop.

    Request handlers receive this object; each declares the parts it needs as a protocol.
    """

    @property
    def is_first_of_node(self) -> bool:
        """False for the processes 1, 2, ... of a node with several."""
        return self.node_id == self._process.node

    # -- start and stop -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the broker and serve clients. On error, close everything and raise."""
        try:
            await self._open()
            await self._join_cluster()
            self._start_replication()
            await self._serve()
        except BaseException:
            await self.abort()
            await self._membership.leave()
            raise

    async def _open(self) -> None:
        """Open ports, log dirs and tiered storage. Ports come first because they are registered with the cluster."""
        self.sockets.open()
        self.logs.lock()
        await self.in_thread(lambda: make_private(self.files, self.config.log_dirs))
        self.logs.use_background(self._in_background)
        self.logs.use_threads(lambda name: self.platform.threads(WRITERS, name))
        self.inspections.start(self.platform.threads(1, "barnabas-inspect"), self.sockets.memory)
        await self.tiering.start(self.coordinators.groups)

    async def _join_cluster(self) -> None:
        """Start following the metadata, join the controller election, load the local logs and register."""
        await self._cluster.open(self.logs.cluster_id, self.logs.folder_id)
        await self.metadata.start()
        self._control.start()
        image = await self.metadata.until(lambda image: bool(image.cluster_id))
        await self._access.prepare(image)
        self.use(image)
        self.logs.claim(self.cluster_id, self.node_id)
        # In a thread: recovery after a crash may take longer than the session timeout.
        found = await self._load_logs()
        lifecycle = self._lifecycle
        lifecycle.on_registered = self.use
        lifecycle.on_fenced, lifecycle.on_unfenced = self._fence, self._unfence
        await lifecycle.join(clean=ShutdownKind.CRASHED not in found.stops.values())
        self.dynamic_config.warn_about_overridden()
        self.logs.loss_is_reported()

    async def _load_logs(self) -> LoadReport:
        if (transfers := self.transfers) is None:
            return await self.in_thread(lambda: self.logs.load(self._expected))
        ours = await self._own_partitions()
        holds = await transfers.take(ours)
        stops = {tp: hold.stop for tp, hold in holds.items()}
        expected, removes_deleted = transfers.expected(holds), self._cluster.removes_deleted
        report = await self.in_thread(
            lambda: self.logs.load(expected, stops, removes_deleted=removes_deleted)
        )
        transfers.loaded(holds, ours.__contains__)
        return report

    async def _own_partitions(self) -> set[TopicPartition]:
        """Partitions that this process loads. Process 0 also takes those that no process has."""
        on_disk = await self.in_thread(self.logs.partitions_on_disk)
        image, node = self.image, self._process.node
        brokers = represented(image, self.node_id, self._process)
        ours = {
            TopicPartition(topic.name, index)
            for topic, index, state in image.partitions()
            if not brokers.isdisjoint(state.replicas)
        }
        if self.is_first_of_node:
            states = ((tp, image.partition(*tp)) for tp in on_disk)
            ours |= {tp for tp, state in states if state is None or not is_on_node(image, state, node)}
        return ours

    def _start_replication(self) -> None:
        """Apply the partition states of the current image, and follow metadata changes from here on."""
        self.replicas.load(self.image)
        self.coordinators.start()
        self.metadata.on_commit.append(self._apply)
        self.metadata.on_commit.append(self._cluster.serves_with)
        self._cluster.serves_with(self.image, ())
        self.metadata.on_failure = self._metadata_failed
        self.tiering.applied(())
        self.failed_dirs.report()
        self._lifecycle.watch()

    async def _serve(self) -> None:
        """Accept client connections. Last step of the startup."""
        await self.sockets.start()
        await self.monitoring.start(self.config["barnabas.metrics.listen"] or "")
        self._housekeeping.start(self._background_tasks)
        self._audit_writer.start()
        self.log_cleaner.start()
        self.moves.start()

    async def stop(self) -> None:
        """Hand over leadership, finish requests in flight, flush, and mark every log dir as cleanly shut down."""
        if self._leaving is not None:
            await asyncio.wait([self._leaving])
            await self.abort()
            return
        hands_over = not self.is_alone and self.config["controlled.shutdown.enable"]
        timeout_seconds = await self._shutdown.run(self.sockets) if hands_over else IN_FLIGHT_SECONDS
        await self._stop_serving(timeout_seconds)
        await self.tiering.stop()
        await self._audit_writer.stop()
        self._stop_replication()
        if self.transfers is not None:
            await self.transfers.stop()
        self._control.stop()
        await self._membership.leave()
        await self.controller.stop()
        self._close_threads()
        self.logs.broker_epoch = self.broker_epoch
        self.logs.close()

    async def abort(self) -> None:
        """Stop like a killed process: no handover, no responses, no flush, no clean shutdown marker."""
        self._control.stop()
        self._audit_writer.abort()
        self.metadata.stop()
        if self.transfers is not None:
            self.transfers.abort()
        self._stop_replication()
        await self._stop_serving(timeout_seconds=0.0)
        await self.tiering.stop()
        self._close_threads()
        self.logs.close(clean=False)

    async def _stop_serving(self, timeout_seconds: float) -> None:
        self._housekeeping.stop()
        await self.monitoring.stop()
        await self.log_cleaner.stop()
        await self.moves.stop()
        await self.sockets.stop(timeout_seconds)

    def _stop_replication(self) -> None:
        self.coordinators.stop()
        self.fetchers.stop()
        self.isr_changes.stop()
        self.mirrors.stop()
        self.failed_dirs.stop()
        self.delegation_tokens.stop()
        self._lifecycle.stop()
        self.peers.close()

    def _close_threads(self) -> None:
        self.inspections.stop()
        self.authentication.close()
        self._flushing.close()
        self._disk.close()

    # -- periodic work -------------------------------------------------------------------------------

    def _background_tasks(self) -> Iterator[None]:
        """Run one round of periodic work in short steps."""
        for wanted in self.logs.housekeeping_steps(self.clock.now_ms()):
            yield
            for log in wanted:
                self.flusher.flush(log)
                yield
        line_limit.tell()
        self.failed_dirs.leave()
        self.delegation_tokens.check()
        if self.config["barnabas.credential.change.ends.sessions"]:
            self.authentication.renew_keys(self.end_revoked_sessions)
        self.inspections.load_if_wanted()
        is_settled = yield from self.replicas.try_again(self._current_image)
        if is_settled or self.coordinators.is_behind:
            self.coordinators.follow()
        if not self.is_alone:
            patience = self.config["replica.lag.time.max.ms"] / 1000
            yield from self.replicas.review_isr(patience, self.config["replica.lag.max.messages"])

    # -- metadata changes ---------------------------------------------------------------------------

    async def _apply(self, image: MetadataImage, deltas: list[Delta]) -> None:
        """Apply a metadata change to settings, partitions, coordinators and metrics, in this order. After an exception
        the same entry is applied again, so every step is idempotent."""
        new = self.replicas.new_partitions(image, deltas)
        if len(new) > CREATED_ON_THE_LOOP and self.transfers is None:
            await self.in_thread(self.logs.prepare(new))
        await self._access.prepare(image)
        if image is not self.image:
            self._image_before = self.image
        self.use(image)
        if self.transfers is not None and new:
            await self.transfers.prepare([tp for tp, _ in new])
            ready = [each for each in new if self.transfers.may_open(each[0])]
            if len(ready) > CREATED_ON_THE_LOOP:
                await self.in_thread(self.logs.prepare(ready))
        if self.config["barnabas.credential.change.ends.sessions"]:
            self._access.end_sessions(deltas)
        for count, _ in enumerate(self.replicas.apply(image, deltas), 1):
            if count % self.platform.applied_at_once == 0:
                await asyncio.sleep(0)
        self.tiering.applied(deltas)
        if self.replicas.offline:
            self.failed_dirs.report()
        self.coordinators.applied(self._image_before, deltas)
        try:
            self.monitoring.follow(self._image_before, deltas)
        except Exception:  # a metrics failure must not stop the broker
            logger.exception("cannot update the metrics after a metadata change")

    def _fence(self) -> None:
        """Accept no records: another broker may lead the partitions."""
        self._view.is_fenced = True
        self.replicas.fence()
        self.follow_leadership()

    def _unfence(self) -> None:
        self._view.is_fenced = False
        self.replicas.unfence()
        self.follow_leadership()

    def _metadata_failed(self) -> None:
        """Fence this broker and leave the cluster: a broker with a stale image must not serve requests."""
        logger.critical("this broker cannot apply the metadata any further: it is fenced and shuts down")
        self._fence()
        self._lifecycle.stop()
        self._control.stop()
        self._leaving = asyncio.ensure_future(self._membership.leave())
        self.on_metadata_failed()
