"""Tables fit the screen."""

import io

import pytest
from rich.console import Console

from barnabas.pipelines.alarms.state import AlarmEvent
from barnabas.pipelines.running.progress import FlowProgress
from examples.demo.results import Results
from examples.demo.screen import Screen
from examples.demo.show import RESULTS

SERVICES = ("catalogue", "checkout", "images", "payment", "search")


def _results() -> Results:
    results = Results("127.0.0.1:1", RESULTS)
    for number in range(12):
        for minute in ("2026-01-01T10:00:00.000Z", "2026-01-01T10:01:00.000Z"):
            results.latest["activity.pages"][f"{minute}{number}"] = {
                "minute": minute,
                "page": f"/shoes/page-{number}",
                "views": 1000 + number,
                "visitors": 900,
            }
        results.latest["activity.searches"][str(number)] = {
            "term": f"running shoes {number}",
            "count": number,
        }
    for name in SERVICES:
        results.latest["operations.services"][name] = {
            "minute": "2026-01-01T10:00:00.000Z",
            "service": name,
            "requests": 3,
        }
    results.latest["activity.traffic"]["view"] = {"count": 90_000}
    return results


def _alarms() -> list[AlarmEvent]:
    return [
        AlarmEvent(
            id=str(number),
            alarm="failing requests",
            key="catalogue",
            status="fired",
            severity="critical",
            value=0.3123,
            threshold="above 0.1",
            at=1_767_261_600.0,
            since=1_767_261_480.0,
        )
        for number in range(12)
    ]


@pytest.mark.parametrize(
    ("width", "height"), [(60, 24), (60, 50), (80, 24), (80, 50), (120, 24), (120, 40), (200, 60)]
)
def test_the_tables_fit_the_terminal_without_a_broken_line(width: int, height: int) -> None:
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=True, width=width, height=height, color_system=None)
    screen = Screen(console, 60, 0.0)
    screen.alarms += _alarms()
    flows = [FlowProgress(f"a-flow-with-a-long-name-{number}", rows=100_000) for number in range(9)]
    console.print(screen._picture(120_000, _results(), flows))
    lines = [line.rstrip() for line in drawn.getvalue().splitlines()]
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    assert any("/shoes/page-11" in line for line in lines)
    assert any("failing requests of catalogue fired" in line for line in lines)
    assert not any("…" in line for line in lines)


def test_alarms_and_steps_are_lines_without_a_terminal() -> None:
    output = io.StringIO()
    screen = Screen(Console(file=output, width=100), 60, 0.0)
    with screen:
        screen.say("planning activity")
        screen.hear(_alarms()[:1])
        screen.show(120_000, _results(), [])
    assert "planning activity" in output.getvalue()
    assert "\x1b" not in output.getvalue()
    assert "alarm at 10:00: failing requests of catalogue fired" in output.getvalue()
    assert "120,000 events written, 90,000 of the shop counted, 1 alarm fired" in output.getvalue()
