"""Times of events, as producers write them: milliseconds that may be anything."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

FURTHEST_AHEAD_MS = 24 * 3600 * 1000


def event_time(milliseconds: Column) -> Column:
    """NULL, for the quality rules to find, where it cannot be the time of an event: before 1970, or more than a day
    ahead of our clock. Such a time would move the watermark past every real event that is still to come, and one that
    no timestamp can hold would end the query."""
    latest = F.unix_millis(F.current_timestamp()) + F.lit(FURTHEST_AHEAD_MS)
    possible = F.when(milliseconds.between(F.lit(0), latest), milliseconds)
    return F.timestamp_millis(possible)
