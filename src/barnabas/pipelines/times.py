"""Event times written by producers: arbitrary milliseconds."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

FURTHEST_AHEAD_MS = 24 * 3600 * 1000


def event_time(milliseconds: Column) -> Column:
    """Convert to a timestamp; NULL, for quality rules to detect, if it is before 1970 or more than a day ahead of our
    clock. A future time would move the watermark past all real events, and a value outside the timestamp range would
    fail the query."""
    latest = F.unix_millis(F.current_timestamp()) + F.lit(FURTHEST_AHEAD_MS)
    possible = F.when(milliseconds.between(F.lit(0), latest), milliseconds)
    return F.timestamp_millis(possible)
