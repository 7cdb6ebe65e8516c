"""The gate of CI: CPU per produce and per fetch request, so that the hot path cannot erode unnoticed.

    python -m benchmarks.gate

CPU time, unlike a rate, hardly depends on who else uses the machine; and it is counted in calibration loops
(calibration.py) measured between the requests, so the limits hold on any machine.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.brokers import Broker
from benchmarks.calibration import microseconds_per_request
from benchmarks.loads import request_load
from benchmarks.session import Session

# In calibration loops per request. Each stands some way above what was measured when it was set: a request
# that becomes a half more expensive is caught, a noisy machine is not.
LIMITS = {"produce": 9.0, "fetch": 15.0}

_ROUNDS, _REQUESTS, _CONNECTIONS = 3, 10_000, 20
_FETCH_BYTES = 4096  # little: the cost of a request is meant, not that of copying bytes


@dataclass(frozen=True)
class Cost:
    api: str
    microseconds: float
    calibration: float

    @property
    def loops(self) -> float:
        return self.microseconds / self.calibration

    def __str__(self) -> str:
        return (
            f"{self.api}: {self.microseconds:.1f} µs CPU per request = {self.loops:.2f} calibration loops "
            f"of {self.calibration:.1f} µs (limit {LIMITS[self.api]:.2f})"
        )


def measure(scratch: Path) -> list[Cost]:
    """The median cost of each API, over a broker started for it."""
    with Session(scratch) as session:
        broker = session.broker("barnabas")
        topic = session.fresh_topic(broker, 1)
        return [_cost_of(api, _loader(broker, api, topic), broker) for api in LIMITS]


def _loader(broker: Broker, api: str, topic: str) -> Callable[[int], None]:
    def load(requests: int) -> None:
        request_load(
            broker,
            api,
            topic,
            partitions=1,
            connections=_CONNECTIONS,
            requests=requests,
            fetch_bytes=_FETCH_BYTES,
        )

    return load


def _cost_of(api: str, load: Callable[[int], None], broker: Broker) -> Cost:
    load(_REQUESTS // 10)  # caches and lazily compiled codecs
    costs = []
    for _ in range(_ROUNDS):
        calibration = microseconds_per_request()
        before = broker.cpu_seconds()
        load(_REQUESTS)
        used = (broker.cpu_seconds() - before) / _REQUESTS * 1e6
        costs.append(Cost(api, used, calibration))
    return sorted(costs, key=lambda cost: cost.loops)[_ROUNDS // 2]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        costs = measure(Path(folder))
    for cost in costs:
        print(cost)
    return 1 if any(cost.loops > LIMITS[cost.api] for cost in costs) else 0


if __name__ == "__main__":
    sys.exit(main())
