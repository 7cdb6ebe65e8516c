"""The name under which Spark's reports carry the counts of quality rules, apart from what needs Spark."""

from __future__ import annotations

OBSERVATION = "quality:"
"""What the names of our observed metrics begin with; the dataset's name follows."""
