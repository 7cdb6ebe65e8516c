"""Operator that changes configuration while faults occur."""

from __future__ import annotations

import random
from collections.abc import Iterable

from barnabas.broker.broker import Broker
from barnabas.cluster.image import ConfigResourceType, MetadataImage, Resource
from barnabas.controller.configs import (
    ConfigOperation,
    ConfigOperationType,
    Results,
    incremental_alter_configs,
)
from barnabas.controller.decision import Decided, Decision
from barnabas.controller.settings import ALL_BROKERS, MIN_ISR, UNCLEAN_ELECTION
from barnabas.handlers.configuration.config_resources import rules

SCRATCH = "scratch"
"""Topic without records, on which unclean elections are allowed."""


def set_minimum(broker: Broker, topic: str, minimum: int) -> Decision[Results]:
    """Set min.insync.replicas of a topic, overriding earlier topic and cluster-wide values."""
    operation = ConfigOperation(MIN_ISR, ConfigOperationType.SET, str(minimum))
    return _alter(broker, Resource(ConfigResourceType.TOPIC, topic), operation)


def _alter(broker: Broker, resource: Resource, operation: ConfigOperation) -> Decision[Results]:
    checks = rules(broker.config, is_alone=False)

    def decide(image: MetadataImage) -> Decided[Results]:
        return incremental_alter_configs(image, {resource: [operation]}, checks, broker.policy)

    return decide


class Operator:
    """`has_lowered_minimum`: min.insync.replicas has been 1, so one machine may hold the only copy of acknowledged
    records. It must not lose power, because unsynced records would be lost, as with Kafka."""

    def __init__(self, rng: random.Random, topic: str) -> None:
        self.has_lowered_minimum = False
        self._rng = rng
        self._with_minimum = (Resource(ConfigResourceType.TOPIC, topic), ALL_BROKERS)
        self._with_elections = Resource(ConfigResourceType.TOPIC, SCRATCH)

    def wish(self, broker: Broker, *, one_may_do: bool) -> tuple[str, Decision[Results]]:
        """Random configuration change: a description for the event log, and the controller decision."""
        if self._rng.random() < 0.25:
            resource = self._with_elections
            operation = ConfigOperation(
                UNCLEAN_ELECTION, ConfigOperationType.SET, self._rng.choice(("true", "false"))
            )
        else:
            resource = self._rng.choice(self._with_minimum)
            operation = ConfigOperation(
                MIN_ISR, ConfigOperationType.SET, self._minimum((1, 2) if one_may_do else (2,))
            )
        words = f"{operation.name} of {resource.name or 'all brokers'} is to be {operation.value}"
        return words, _alter(broker, resource, operation)

    def _minimum(self, low: Iterable[int]) -> str:
        minimum = self._rng.choice((*low, 2, 3))
        self.has_lowered_minimum |= minimum == 1
        return str(minimum)
