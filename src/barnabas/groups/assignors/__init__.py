"""Who gets which partition: pure functions from subscriptions and the present assignment to the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.groups.assignors.range import assign_ranges
from barnabas.groups.assignors.spec import MemberSpec
from barnabas.groups.assignors.uniform import assign_uniformly
from barnabas.groups.modern import Assignment
from barnabas.types import Uuid

Assignor = Callable[[Mapping[str, MemberSpec], Mapping[Uuid, int]], dict[str, Assignment]]
"""Members by their ids, and how many partitions each topic has."""

CONSUMER_ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the names that members vote for."""
