"""Replica placement: layout of a cluster, reassignment plans and their execution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.placement.layout import ClusterBrokers as ClusterBrokers
    from barnabas.client.placement.layout import ClusterLayout as ClusterLayout
    from barnabas.client.placement.layout import brokers_of_cluster as brokers_of_cluster
    from barnabas.client.placement.layout import describe_layout as describe_layout
    from barnabas.client.placement.layout import describe_moving as describe_moving
    from barnabas.client.placement.layout import replica_sizes as replica_sizes
    from barnabas.client.placement.planner import Assignment as Assignment
    from barnabas.client.placement.planner import NoPlanError as NoPlanError
    from barnabas.client.placement.planner import ReplicaMove as ReplicaMove
    from barnabas.client.placement.planner import Site as Site
    from barnabas.client.placement.planner import drain as drain
    from barnabas.client.placement.planner import rebalance as rebalance
    from barnabas.client.placement.plans import ReassignmentPlan as ReassignmentPlan
    from barnabas.client.placement.plans import arrived_bytes as arrived_bytes
    from barnabas.client.placement.plans import below_min_isr as below_min_isr
    from barnabas.client.placement.plans import plan_drain as plan_drain
    from barnabas.client.placement.plans import plan_move as plan_move
    from barnabas.client.placement.plans import plan_rebalance as plan_rebalance
    from barnabas.client.placement.plans import replicas_on as replicas_on
    from barnabas.client.placement.plans import with_copies as with_copies
    from barnabas.client.placement.reassignments import Reassignment as Reassignment
else:
    __getattr__ = lazy_exports(__name__)
