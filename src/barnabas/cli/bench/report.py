"""Tables and charts of measurements on the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from barnabas.cli.bench.latencies import Latencies
from barnabas.cli.bench.measurements import Measurement
from barnabas.cli.output import size

BAR = 40  # characters
EIGHTHS = " ▏▎▍▌▋▊▉"
STEPS_PER_DECADE = (1, 2, 5)
LABEL = 21  # an address


def show_test(results: Mapping[str, Measurement]) -> None:
    """Results of one test by cluster."""
    test = next(iter(results.values())).test
    print(f"\n{test}")
    if test in ("produce", "consume"):
        _show_rates(results)
    for name in next(iter(results.values())).latencies:
        _show_latencies(name, {cluster: result.latencies[name] for cluster, result in results.items()})


def _show_rates(results: Mapping[str, Measurement]) -> None:
    largest = max(result.records_per_second for result in results.values())
    first = next(iter(results.values())).records_per_second
    for position, (cluster, result) in enumerate(results.items()):
        ratio = f"  ({first / result.records_per_second:.2f} x)" if position and result.records else ""
        text = f"{result.records_per_second:>10,.0f} records/s  {size(result.bytes_per_second):>9}/s"
        print(f"  {cluster:<{LABEL}} {bar(result.records_per_second / largest)} {text}{ratio}")


def _show_latencies(name: str, by_cluster: Mapping[str, Latencies]) -> None:
    print(f"  {name}, ms")
    for cluster, latencies in by_cluster.items():
        figures = "  ".join(
            f"{label.replace('_', '.')} {figure:,.2f}" for label, figure in latencies.milliseconds().items()
        )
        print(f"    {cluster:<{LABEL}} {figures}")
    _show_histogram(by_cluster)


def _show_histogram(by_cluster: Mapping[str, Latencies]) -> None:
    """One line for each range of latencies and cluster; its length is the share of the measurements."""
    smallest = min(latencies.percentile(0) for latencies in by_cluster.values())
    largest = max(latencies.largest for latencies in by_cluster.values())
    edges = edges_between(smallest, largest)
    shares = {
        cluster: [number / max(latencies.count, 1) for number in latencies.histogram(edges)]
        for cluster, latencies in by_cluster.items()
    }
    top = max(share for column in shares.values() for share in column) or 1
    for at, edge in enumerate(edges):
        for position, (cluster, column) in enumerate(shares.items()):
            label = f"<= {edge * 1000:g}" if position == 0 else ""
            name = f" {cluster}" if len(shares) > 1 else ""
            print(f"    {label:>{LABEL}} {bar(column[at] / top)} {column[at]:>6.1%}{name}")


def edges_between(smallest: float, largest: float) -> list[float]:
    """Upper edges of ranges in steps of 1, 2 and 5, from that of `smallest` to that of `largest`."""
    edges = _steps(math.floor(math.log10(max(smallest, 1e-6))), math.ceil(math.log10(max(largest, 1e-6))) + 1)
    first = next(at for at, edge in enumerate(edges) if edge >= smallest)
    last = next(at for at, edge in enumerate(edges) if edge >= largest)
    return edges[first : last + 1]


def _steps(first: int, last: int) -> list[float]:
    return [step * 10.0**power for power in range(first, last + 1) for step in STEPS_PER_DECADE]


def bar(share: float) -> str:
    """A bar of BAR characters, of which this share is filled."""
    eighths = round(share * BAR * 8)
    text = "█" * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")
    return f"{text:<{BAR}}"


def as_json(results: Sequence[Mapping[str, Measurement]]) -> list[dict[str, object]]:
    return [
        {"cluster": cluster, **measurement.as_json()}
        for by_cluster in results
        for cluster, measurement in by_cluster.items()
    ]
