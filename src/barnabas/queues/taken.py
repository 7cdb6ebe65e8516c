"""What a consumer is given."""

from __future__ import annotations

from typing import NamedTuple


class Taken(NamedTuple):
    """Neighbouring records, and the how-manieth delivery of each this is."""

    first: int
    last: int
    deliveries: int
