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


@dataclass(frozen=True)
class Between:
    """A/B/A: what is claimed to cost nothing is measured between two measurements of what it is compared with.

    The two As of a round differ by chance alone. A ratio that chance shows as well says nothing against the claim.
    """

    figure: Figure
    before: Figure
    after: Figure

    @property
    def ratio(self) -> float:
        """The median over the rounds of B to the mean of both As."""
        rounds = zip(self.figure.rounds, self.before.rounds, self.after.rounds, strict=False)
        return statistics.median(b / ((first + last) / 2) for b, first, last in rounds)

    @property
    def by_chance(self) -> float:
        """The largest ratio of the two As of a round, at least 1."""
        pairs = zip(self.before.rounds, self.after.rounds, strict=False)
        return max(max(first / last, last / first) for first, last in pairs)
