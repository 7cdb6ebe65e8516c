"""Why a command about the object store does not go on. The texts say everything."""

from __future__ import annotations


class TierError(Exception):
    """What was asked cannot be done."""


class NotTieredError(TierError):
    """The topic is not in an object store."""


class NotInStoreError(TierError):
    """The store has nothing of the topic."""


class RepairRefusedError(TierError):
    """The manifests are sound, must not be replaced, or would leave offsets out."""


class CloneRefusedError(TierError):
    """A snapshot cannot be restored as was asked."""
