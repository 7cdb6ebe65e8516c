"""Assignors: pure functions from subscriptions and the current assignment to the next assignment.

Each is a generator of steps (`barnabas.common.cooperative`), because large groups would block the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.common.cooperative import Steps
from barnabas.common.types import Uuid
from barnabas.groups.assignors.range import assign_ranges, range_steps
from barnabas.groups.assignors.spec import MemberSpec
from barnabas.groups.assignors.uniform import assign_uniformly, uniform_steps
from barnabas.groups.modern import Assignment

Assignor = Callable[[Mapping[str, MemberSpec], Mapping[Uuid, int]], dict[str, Assignment]]
"""Members by their ids, and how many partitions each topic has."""

AssignorSteps = Callable[[Mapping[str, MemberSpec], Mapping[Uuid, int]], Steps[dict[str, Assignment]]]

CONSUMER_ASSIGNOR_STEPS: dict[str, AssignorSteps] = {"uniform": uniform_steps, "range": range_steps}
"""By the name that members vote for."""

CONSUMER_ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""The same, without slicing."""
