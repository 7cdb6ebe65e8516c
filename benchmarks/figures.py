"""A figure is what several rounds measured: its median, and how far the rounds lie apart."""

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """Half the distance between the extremes, as a share of the median."""
        if not self.median:
            return 0.0
        return (max(self.rounds) - min(self.rounds)) / 2 / self.median

    def overlaps(self, other: "Figure") -> bool:
        return max(self.rounds) >= min(other.rounds) and max(other.rounds) >= min(self.rounds)

    def text(self, unit: str, digits: int = 0) -> str:
        spread = f" ±{self.spread:.0%}" if len(self.rounds) > 1 else ""
        return f"{self.median:,.{digits}f} {unit}{spread}"
