"""Summary of the demo: the comparisons made, and whether all counts are exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from examples.demo.checking import Check
from examples.demo.screen import Screen


def summarize(
    console: Console, checks: Sequence[Check], screen: Screen, sent: int, late: Mapping[str, int]
) -> None:
    """`late`: number of rows that Spark dropped because their window was closed, by flow."""
    console.print()
    console.print(_table(checks))
    fired = sum(event.status == "fired" for event in screen.alarms)
    console.print(
        f"{sent:,} events written; {fired} alarms fired and {len(screen.alarms) - fired} resolved. The first figures "
        f"came after {screen.first_figures or 0:.0f} s, the end after {screen.elapsed:.0f} s."
    )
    wrong = [check for check in checks if not check.good]
    if not wrong:
        console.print("[green]Every event was counted exactly once, by each pipeline.")
        console.print("Your turn: [bold]barnabas pipeline init clicks --template activity")
        return
    console.print(f"[red]{len(wrong)} of {len(checks)} checks failed:")
    for check in wrong:
        console.print(check.sentence(), markup=False, style="red")
    for flow, number in late.items():
        console.print(f"{flow} left out {number:,} rows that came after their windows were closed.")


def _table(checks: Sequence[Check]) -> Table:
    table = Table(title="Every event once?", title_justify="left")
    table.add_column("what was compared")
    for name in ("figures", "expected", "found"):
        table.add_column(name, justify="right")
    table.add_column("")
    for check in checks:
        figures = len({*check.expected, *check.found})
        totals = (sum(check.expected.values()), sum(check.found.values()))
        verdict = "[green]exact" if check.good else "[red]WRONG"
        table.add_row(check.what, *(f"{number:,}" for number in (figures, *totals)), verdict)
    return table
