"""Rules for Prometheus and boards for Grafana."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from barnabas.services.console.alarms.catalogue import ALARMS
from barnabas.services.console.alarms.conditions import Area
from tests.support.programs import find_promtool
from tools.monitoring.boards import board, chosen
from tools.monitoring.rules import rules_file

ROOT = Path(__file__).parents[2]


def _targets(area: Area) -> list[str]:
    found: dict[str, Any] = json.loads(board(area))
    return [target["expr"] for panel in found["panels"] for target in panel["targets"]]


def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(rules_file())
    done = subprocess.run(
        [find_promtool(), "check", "rules", str(tmp_path / "rules.yml")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(ALARMS)} rules found" in done.stdout


def test_prometheus_parses_the_queries_of_the_dashboards(tmp_path: Path) -> None:
    """As recording rules, which promtool parses."""
    lines = ["groups:", "  - name: boards", "    rules:"]
    for number, expression in enumerate(each for area in Area for each in _targets(area)):
        known = expression.replace("$job", ".*").replace("$instance", ".*")
        known = known.replace("$topic", ".*").replace("$consumergroup", ".*")
        lines += [f"      - record: r{number}", f"        expr: {json.dumps(known)}"]
    (tmp_path / "boards.yml").write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [find_promtool(), "check", "rules", str(tmp_path / "boards.yml")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("area", Area)
def test_every_alarm_is_on_its_board_and_every_query_is_of_the_chosen_job(area: Area) -> None:
    text = board(area)
    assert all(f'"title": "{alarm.name}"' in text for alarm in ALARMS if alarm.area is area)
    for expression in _targets(area):
        used = re.findall(r"\b(?:kafka|barnabas|process)_[a-z_]+", expression)
        assert expression.count('job=~"$job",instance=~"$instance"') == len(used), expression


def test_boards_ask_for_metrics_that_there_are() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "src" / "barnabas").rglob("*.py"))
    for area in Area:
        for expression in _targets(area):
            for name in re.findall(r"\b(?:kafka|barnabas|process)_[a-z_]+", expression):
                assert name.removesuffix("_bucket") in sources, name


def test_selector_keeps_its_registrations() -> None:
    at = 'job=~"$job",instance=~"$instance"'
    assert chosen('kafka_brokers > sum(barnabas_x{state="a"}[5m])') == (
        f'kafka_brokers{{{at}}} > sum(barnabas_x{{{at},state="a"}}[5m])'
    )
