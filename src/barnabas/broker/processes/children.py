"""A forked broker process as its supervisor sees it: its link, its listening sockets, and when it is forked again."""

from __future__ import annotations

import selectors
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass, field

from barnabas.cluster.hub import HubProcess
from barnabas.common.retry import Backoff
from barnabas.common.safe_logging import safe_logger

logger = safe_logger(__name__)

FIRST_PAUSE, MAX_PAUSE = 0.5, 30.0
LONG_ENOUGH = 10.0  # uptime after which the next fork is immediate again
TURN_AWAY_SECONDS = 2.0  # down for longer: its ports accept and close, so that clients look elsewhere
ORDERLY_PAUSE = 1.0  # after an orderly stop of one process: the supervisor's own SIGTERM may be on its way


@dataclass(slots=True)
class Child:
    """Process k of the node. It is down when it was reaped (`pid`) and its link has ended (`link`)."""

    k: int
    listening: dict[str, socket.socket]
    pid: int | None = None
    link: HubProcess | None = None
    forked_at: float = 0.0
    fork_at: float | None = 0.0
    down_since: float | None = None
    exit_code: int = 0
    failure: str = ""
    lines: list[str] | None = None
    """What its first run has announced."""
    is_ready: bool = False
    turns_away: bool = False
    backoff: Backoff = field(default_factory=lambda: Backoff(FIRST_PAUSE, MAX_PAUSE, jitter=0))

    @property
    def is_down(self) -> bool:
        return self.pid is None and self.link is None

    def is_due(self, now: float) -> bool:
        return self.is_down and self.fork_at is not None and self.fork_at <= now

    def forked(self, pid: int, link: HubProcess, now: float) -> None:
        self.pid, self.link, self.forked_at = pid, link, now
        self.fork_at = self.down_since = None
        self.exit_code, self.failure, self.is_ready = 0, "", False

    def ended(self, now: float) -> None:
        """Choose the time of the next fork: at once after a first kill, later if it ends again and again."""
        self.down_since = now
        if now - self.forked_at > LONG_ENOUGH:
            self.backoff.reset()
        if self.exit_code == 0:
            pause = ORDERLY_PAUSE
        elif self.exit_code == -signal.SIGKILL and self.backoff.is_fresh:
            pause = 0.0
            self.backoff.next_delay()
        else:
            pause = self.backoff.next_delay()
        self.fork_at = now + pause
        logger.error("process %d has ended (%s); it is started again in %g s", self.k, self.reason, pause)

    @property
    def reason(self) -> str:
        if self.failure:
            return self.failure
        code = self.exit_code
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    # -- its ports while it is down -------------------------------------------------------------------

    def turn_away(self, selector: selectors.BaseSelector, now: float) -> None:
        """Accept and close what connects to a process that is down for long."""
        if self.down_since is None or now - self.down_since <= TURN_AWAY_SECONDS or self.turns_away:
            return
        self.turns_away = True
        for each in self.listening.values():
            selector.register(each, selectors.EVENT_READ, lambda listening=each: _accept_and_close(listening))

    def stop_turning_away(self, selector: selectors.BaseSelector) -> None:
        if self.turns_away:
            self.turns_away = False
            for each in self.listening.values():
                selector.unregister(each)

    def close_ports(self) -> None:
        for each in self.listening.values():
            each.close()


def _accept_and_close(listening: socket.socket) -> None:
    with suppress(OSError):
        listening.accept()[0].close()
