"""Background work on the event loop, in slices of a few milliseconds.

The work is a generator of short steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

from barnabas.broker.coordinators import Coordinators
from barnabas.broker.failed_log_dirs import FailedLogDirs
from barnabas.broker.security.authentication import Authentication
from barnabas.broker.security.delegation_tokens import DelegationTokens
from barnabas.cluster.image import MetadataImage
from barnabas.common.clock import Clock, Turn, TurnLimit
from barnabas.common.safe_logging import line_limit
from barnabas.config.broker import BrokerConfig
from barnabas.log.dirs import LogManager
from barnabas.replication import Inspections, ReplicaManager
from barnabas.replication.flusher import Flusher


class PeriodicTask:
    """Runs rounds of steps; each round starts `interval` seconds after the end of the previous one."""

    def __init__(
        self,
        steps: Callable[[], Iterator[None]],
        interval: float,
        monotonic: Callable[[], float],
        limit: TurnLimit,
    ) -> None:
        self._steps = steps
        self._interval = interval
        self._current = Turn(limit, monotonic)
        self._round: Iterator[None] = iter(())
        self._next: asyncio.Handle | None = None

    def start(self) -> None:
        self._round = self._steps()
        self._turn()

    def stop(self) -> None:
        """Stop immediately, without finishing the current round."""
        self._round = iter(())
        if self._next is not None:
            self._next.cancel()

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        self._next = loop.call_later(self._interval, self.start)  # also when a step fails
        if not self._is_over():
            self._next.cancel()
            self._next = loop.call_soon(self._turn)

    def _is_over(self) -> bool:
        """Run steps for one slice; True if the round is finished."""
        turn = self._current
        turn.begin()
        while next(self._round, self) is not self:
            if turn.is_over():
                return False
        return True


class _Host(Protocol):
    """Parts of the broker with periodic work."""

    clock: Clock
    config: BrokerConfig
    image: MetadataImage
    is_alone: bool
    logs: LogManager
    flusher: Flusher
    failed_dirs: FailedLogDirs
    inspections: Inspections
    replicas: ReplicaManager
    coordinators: Coordinators
    delegation_tokens: DelegationTokens
    authentication: Authentication

    def end_revoked_sessions(self) -> None: ...


def run_background_tasks(broker: _Host) -> Iterator[None]:
    """Run one round of periodic work in short steps."""
    for wanted in broker.logs.housekeeping_steps(broker.clock.now_ms()):
        yield
        for log in wanted:
            broker.flusher.flush(log)
            yield
    line_limit.tell()
    broker.failed_dirs.leave()
    broker.delegation_tokens.check()
    if broker.config["barnabas.credential.change.ends.sessions"]:
        broker.authentication.renew_keys(broker.end_revoked_sessions)
    broker.inspections.load_if_wanted()
    is_settled = yield from broker.replicas.try_again(lambda: broker.image)
    if is_settled or broker.coordinators.is_behind:
        broker.coordinators.follow()
    if not broker.is_alone:
        patience = broker.config["replica.lag.time.max.ms"] / 1000
        yield from broker.replicas.review_isr(patience, broker.config["replica.lag.max.messages"])
