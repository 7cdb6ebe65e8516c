"""Exact percentiles of latencies (all samples are kept)."""


def percentile(samples: list[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def summary(samples: list[float]) -> dict[str, float]:
    """Percentiles in microseconds, from samples in seconds."""
    if not samples:
        raise RuntimeError("nothing was measured: no record came back")
    return {
        "samples": float(len(samples)),
        "p50_us": percentile(samples, 0.50) * 1e6,
        "p99_us": percentile(samples, 0.99) * 1e6,
    }
