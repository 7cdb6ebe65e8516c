"""A figure: the median of several rounds, and their spread."""

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
        """Half the range of the rounds, relative to the median."""
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
    """A/B/A comparison: a feature with no expected cost is measured between two measurements of the baseline.

    The two baselines of a round differ only by noise. A ratio within that noise does not contradict the claim.
    """

    figure: Figure
    before: Figure
    after: Figure

    @property
    def ratio(self) -> float:
        """Median over the rounds of B divided by the mean of both As."""
        rounds = zip(self.figure.rounds, self.before.rounds, self.after.rounds, strict=False)
        return statistics.median(b / ((first + last) / 2) for b, first, last in rounds)

    @property
    def by_chance(self) -> float:
        """Largest ratio between the two As of a round, at least 1."""
        pairs = zip(self.before.rounds, self.after.rounds, strict=False)
        return max(max(first / last, last / first) for first, last in pairs)
