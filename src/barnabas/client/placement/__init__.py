"""Replica placement: layout of a cluster, reassignment plans and their execution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.placement.layout import (
        ClusterBrokers,
        ClusterLayout,
        brokers_of_cluster,
        describe_layout,
        describe_moving,
        replica_sizes,
    )
    from barnabas.client.placement.planner import Assignment, NoPlanError, Site, drain, rebalance
    from barnabas.client.placement.plans import (
        ReassignmentPlan,
        arrived_bytes,
        plan_drain,
        plan_move,
        plan_rebalance,
        replicas_on,
        with_copies,
    )
    from barnabas.client.placement.reassignments import Reassignment
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "layout": "ClusterBrokers ClusterLayout brokers_of_cluster describe_layout describe_moving replica_sizes",
            "planner": "Assignment NoPlanError Site drain rebalance",
            "plans": "ReassignmentPlan arrived_bytes plan_drain plan_move plan_rebalance replicas_on with_copies",
            "reassignments": "Reassignment",
        },
    )

__all__ = [
    "Assignment",
    "ClusterBrokers",
    "ClusterLayout",
    "NoPlanError",
    "Reassignment",
    "ReassignmentPlan",
    "Site",
    "arrived_bytes",
    "brokers_of_cluster",
    "describe_layout",
    "describe_moving",
    "drain",
    "plan_drain",
    "plan_move",
    "plan_rebalance",
    "rebalance",
    "replica_sizes",
    "replicas_on",
    "with_copies",
]
