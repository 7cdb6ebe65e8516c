"""Features that this version knows, and the levels that a new cluster starts with.

A feature is listed when every one of its paths works, not before: clients change what they send as soon as they
see it finalized.
"""

from __future__ import annotations

SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    # 2: the epoch rises with every transaction, partitions join by being written
    "transaction.version": (0, 2),
    # 1: consumer groups (KIP-848)
    "group.version": (0, 1),
    # 1: share groups (KIP-932)
    "share.version": (0, 1),
    # 1: streams groups (KIP-1071)
    "streams.version": (0, 1),
}


def initial_features() -> dict[str, int]:
    return {name: highest for name, (_, highest) in SUPPORTED_FEATURES.items()}
