"""`python -m tests.broker.processes.serving N NAME=VALUE ...` serves with N processes, as `barnabas serve` does."""

import logging
import sys
from collections.abc import Iterable

from barnabas.broker import Broker, run
from barnabas.broker.processes import NodeConfig, Supervisor
from barnabas.config.broker import BrokerConfig

FORMAT = "%(asctime)s %(process)d %(levelname)-7s %(name)s: %(message)s"


def lines_of(broker: Broker) -> list[str]:
    return [f"ready on {listener.port}" for listener in broker.listeners]


def announce(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def announce_one(broker: Broker) -> None:
    announce(lines_of(broker))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format=FORMAT)
    properties = dict(argument.split("=", 1) for argument in sys.argv[2:])
    if sys.argv[1] == "1":
        run(BrokerConfig.load(properties), announce_one)
    else:
        Supervisor(NodeConfig(properties, int(sys.argv[1])), lines_of, announce).run()
