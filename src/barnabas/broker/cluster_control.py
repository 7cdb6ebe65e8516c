"""Background work of the elected controller.

It registers brokers that join, fences brokers that disappear, runs preferred leader elections periodically, and
reassigns replicas if self-healing or balancing is enabled (controller/healing.py).
Requests from clients and other brokers reach the controller through their handlers.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress

from barnabas.broker.move_sizes import SizeOfMoves
from barnabas.cluster import BrokerInfo, Brokers, Membership, broker_of, node_of
from barnabas.cluster.deltas import Delta
from barnabas.cluster.features import Levels, initial_features
from barnabas.cluster.image import MetadataImage
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.common.safe_logging import safe_logger
from barnabas.common.types import TopicPartition
from barnabas.controller import (
    TRANSFERS_AT_ONCE,
    Controller,
    ControllerPolicy,
    Decided,
    Healing,
    HealingSettings,
    Targets,
    alter_reassignments,
    balance_leaders,
    finalize_processes,
    replace_gone,
    settle_min_isr,
    spread,
    uncleanly_led,
)
from barnabas.controller.brokers import Registration, create_cluster, fence, register, unfence

logger = safe_logger(__name__)

RETRY_SECONDS = 0.5  # after a failed round
MAX_FAILURES = 20  # consecutive
REVIEW_SECONDS = 5.0  # maximum interval between reviews of the replica placement
BEGIN_SECONDS = 60.0  # timeout for catching up with the metadata log and writing the first entry


class ClusterControl:
    """Runs one task while elected: register and fence brokers, then wait for the next change or rebalance."""

    def __init__(
        self,
        controller: Controller,
        membership: Membership,
        policy: Callable[[], ControllerPolicy],
        found_cluster: Callable[[], tuple[str, list[Delta]]],
        balance_seconds: Callable[[], float | None],
        healing_settings: HealingSettings,
        size_of_moves: SizeOfMoves,
        supported_features: Levels,
        *,
        is_alone: bool,
        spreads: bool = True,
    ) -> None:
        self._controller = controller
        self._membership = membership
        self._policy = policy
        self._found_cluster = found_cluster
        self._balance_seconds = balance_seconds
        self._healing_settings = healing_settings
        self._size_of_moves = size_of_moves
        self._healing = Healing()
        self._reviewed_at = 0.0
        self._begun: dict[TopicPartition, int] = {}  # reassignments started here, with the bytes to copy
        self._supported_features = supported_features
        self._is_alone = is_alone
        self._spreads = spreads
        self._new_processes: set[int] = set()
        """Registered for the first time, and without their share of the partitions."""
        self._brokers: Brokers | None = None
        self._changed = asyncio.Event()
        self._balanced_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._controller.on_commit.append(self._log_unclean_elections)
        self._membership.on_brokers_changed(self._brokers_changed)
        self._membership.campaign(self._elected, self._resigned)

    def stop(self) -> None:
        self._resigned()

    def _elected(self, epoch: int) -> None:
        self._resigned()
        logger.info("this broker is the controller, epoch %d", epoch)
        self._task = asyncio.ensure_future(self._control(epoch))

    def _resigned(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        self._controller.resign()

    def _brokers_changed(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._changed.set()

    def _log_unclean_elections(self, image: MetadataImage, deltas: list[Delta]) -> None:
        """Log every unclean election, since it may lose records. Unclean elections happen only if a setting or request
        allows them, or if the only remaining replica is a leader that lost records."""
        if self._controller.is_active:
            for partition, state in uncleanly_led(image, deltas):
                logger.error(
                    "%s: broker %d was elected leader although it was not in sync; records may be lost",
                    partition,
                    state.leader,
                )

    # -- while elected ------------------------------------------------------------------------------

    async def _control(self, epoch: int) -> None:
        """Run rounds until resigned. Step down after MAX_FAILURES consecutive failures so another broker is elected."""
        failures = 0
        while failures < MAX_FAILURES:
            try:
                if not await self._has_begun(epoch):
                    break
                while True:
                    await self._one_round()
                    failures = 0
            except KafkaError as error:
                logger.warning("a round of the controller failed; retrying: %s", error)
            except Exception:
                logger.exception("a round of the controller failed; retrying")
            failures += 1
            self._controller.resign()
            await asyncio.sleep(RETRY_SECONDS)
        logger.error("this broker cannot act as the controller and resigns")
        self._membership.step_down()

    async def _has_begun(self, epoch: int) -> bool:
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                await self._begin(epoch)
        except TimeoutError:
            logger.exception("the controller could not write its first entry within %g s", BEGIN_SECONDS)
            return False
        return True

    async def _begin(self, epoch: int) -> None:
        await self._controller.take_over(epoch)
        if not self._controller.image.cluster_id:
            await self._controller.submit(self._founding)
        # Must precede the first registration, so that all leaders use the same min.insync.replicas.
        await self._controller.submit(
            lambda image: settle_min_isr(image, self._policy(), is_alone=self._is_alone)
        )
        self._balanced_at = self._reviewed_at = asyncio.get_running_loop().time()
        self._healing = Healing()
        self._begun = {}
        self._changed.set()

    def _founding(self, image: MetadataImage) -> Decided[None]:
        """Create the cluster and adopt existing topics in a single entry, so no broker sees those topics as strays."""
        cluster_id, adopted = self._found_cluster()
        created, _ = create_cluster(image, cluster_id, initial_features(self._supported_features))
        return [*created, *adopted], None

    async def _one_round(self) -> None:
        if await self._wait_for_change():
            self._changed.clear()
            if self._brokers is not None:
                await self._follow(self._brokers)
            return
        now = asyncio.get_running_loop().time()
        if self._leaders_due() <= now:
            self._balanced_at = now
            await self._controller.submit(lambda image: balance_leaders(image, self._policy()))
        if self._review_due() <= now:
            self._reviewed_at = now
            await self._review_replicas(now)

    async def _wait_for_change(self) -> bool:
        """Wait for a broker change (True) or the next periodic task (False). Overdue tasks take precedence."""
        due = min(self._leaders_due(), self._review_due())
        if due <= asyncio.get_running_loop().time():
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout_at(None if due == math.inf else due):
                await self._changed.wait()
        return self._changed.is_set()

    def _leaders_due(self) -> float:
        seconds = self._balance_seconds()
        return math.inf if seconds is None else self._balanced_at + seconds

    def _review_due(self) -> float:
        settings = self._healing_settings
        if not settings.is_on:
            return math.inf
        return self._reviewed_at + min(REVIEW_SECONDS, settings.shortest_wait / 4)

    async def _review_replicas(self, now: float) -> None:
        self._log_done(self._controller.image)
        # In a thread: planning ten thousand partitions would block the event loop for too long.
        targets = await asyncio.to_thread(
            self._healing.review, self._controller.image, self._healing_settings, now
        )
        if targets:
            await self._log_moves(targets)
            await self._controller.submit(
                lambda image: alter_reassignments(image, list(targets.items()), self._policy())
            )

    async def _log_moves(self, targets: Targets) -> None:
        wanted = {tp: after for tp, after in targets.items() if after is not None}
        size = await self._size_of_moves(self._controller.image, wanted)
        cancelled = len(targets) - len(wanted)
        logger.info("%d reassignments started: %s; %d cancelled", len(wanted), size, cancelled)
        self._begun |= {tp: size.copies.get(tp, 0) for tp in wanted}

    def _log_done(self, image: MetadataImage) -> None:
        """Log the completed reassignments that this broker started."""
        moving = {tp: size for tp, size in self._begun.items() if _is_moving(image, tp)}
        if done := self._begun.keys() - moving.keys():
            copied = sum(self._begun[tp] for tp in done)
            logger.info("%d reassignments completed; about %d bytes were copied", len(done), copied)
        self._begun = moving

    async def _follow(self, alive: Brokers) -> None:
        policy = self._policy()
        for broker_id, known in list(self._controller.image.brokers.items()):
            if not known.fenced and broker_id not in alive:
                logger.warning(
                    "broker %d has disconnected: electing other leaders for its partitions", broker_id
                )
                await self._controller.submit(_fencing(broker_id, policy))
        if any(info.node >= 0 for info in alive.values()) and self._is_alone:
            await self._controller.submit(finalize_processes)
        registered = self._controller.image.brokers
        self._new_processes |= {
            each.id for each in alive.values() if each.node >= 0 and each.id not in registered
        }
        for info in alive.values():
            try:
                await self._controller.submit(_registering(info, policy))
            except KafkaError as error:
                if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                    raise
                logger.error("broker %d is not registered: %s", info.id, error)
        for node in {info.id if info.node < 0 else info.node for info in alive.values()}:
            await self._follow_node(node, alive)

    async def _follow_node(self, node: int, alive: Brokers) -> None:
        """After a change of the number of processes: replace those that the node has no more, and give new ones their
        share of the partitions."""
        policy, own = self._policy(), alive.get(node)
        if own is None:
            return
        count, image = own.processes, self._controller.image
        ids = frozenset(broker_of(node, k) for k in range(count))
        if any(node_of(each) == node and each.id not in ids for each in image.brokers.values()):
            moved = await self._controller.submit(lambda image: replace_gone(image, node, count, policy))
            logger.info("%d partitions of former processes of node %d have moved to others", moved, node)
        if self._new_processes & ids and ids <= alive.keys():
            self._new_processes -= ids
            if self._spreads:
                await self._spread(node, count, policy)

    async def _spread(self, node: int, count: int, policy: ControllerPolicy) -> None:
        moved, total = TRANSFERS_AT_ONCE, 0
        while moved == TRANSFERS_AT_ONCE:
            moved = await self._controller.submit(lambda image: spread(image, node, count, policy))
            total += moved
        if total:
            logger.info("%d partitions of node %d have moved to new processes", total, node)


def _is_moving(image: MetadataImage, tp: TopicPartition) -> bool:
    state = image.partition(*tp)
    return state is not None and state.being_reassigned


def _fencing(broker_id: int, policy: ControllerPolicy) -> Callable[[MetadataImage], Decided[None]]:
    return lambda image: fence(image, broker_id, policy)


def _registering(info: BrokerInfo, policy: ControllerPolicy) -> Callable[[MetadataImage], Decided[int]]:
    registration = Registration(
        info.id, info.host, info.rack, info.endpoints, info.features, info.clean, info.epoch, info.node
    )

    def decide(image: MetadataImage) -> Decided[int]:
        known = image.brokers.get(info.id)
        if known is None or known.epoch < info.epoch:
            return register(image, registration, policy)
        if known.fenced and known.epoch == info.epoch:
            # A new controller read the registration from the log before it saw the session, and fenced the broker.
            return unfence(image, info.id, policy)[0], known.epoch
        return [], known.epoch

    return decide
