"""Agents as processes: killed, with rotated files, fenced; librdkafka reads the output."""

from __future__ import annotations

import gzip
import subprocess
import time
from pathlib import Path
from uuid import uuid4

import pytest

from barnabas.testing import EmbeddedBroker
from tests.services.ingest.processes import DEADLINE, IngestProcess, read_committed
from tests.support.brokers import BrokerProcess
from tests.support.programs import find

PIECE = 1024 * 1024
ENDLESS = 192 * PIECE
BOUND = 128 * PIECE


class AgentProcess(IngestProcess):
    """`barnabas ingest files` as a separate process."""

    def __init__(self, bootstrap: str, topic: str, *arguments: str) -> None:
        super().__init__(bootstrap, "files", "--topic", topic, *arguments)


def add(path: Path, first: int, last: int) -> None:
    with path.open("a") as file:
        file.writelines(f"line {number}\n" for number in range(first, last))


def lines(last: int) -> list[str]:
    return [f"line {number}" for number in range(last)]


def test_lines_of_a_file_are_in_the_topic_in_order(bootstrap: str, tmp_path: Path) -> None:
    log, topic = tmp_path / "app.log", f"logs-{uuid4().hex}"
    add(log, 0, 20_000)
    agent = AgentProcess(bootstrap, topic, str(log), "--exit-at-end", "-z", "lz4")
    agent.start()
    code, output = agent.wait()
    assert code == 0, output
    assert "20000 records" in output.replace(",", "")
    agent.start()  # nothing is read twice
    assert agent.wait()[0] == 0
    add(log, 20_000, 20_001)
    agent.start()
    assert agent.wait()[0] == 0
    assert read_committed(bootstrap, topic, lambda found: len(found) >= 20_001) == lines(20_001)


def test_an_agent_killed_again_and_again_writes_each_line_once(tmp_path: Path) -> None:
    log, topic = tmp_path / "app.log", "logs"
    with EmbeddedBroker() as broker:
        broker.create_topic(topic)
        agent = AgentProcess(broker.bootstrap_servers, topic, str(log), "--agent", "a")
        for iteration in range(5):
            agent.start()
            add(log, iteration * 4000, iteration * 4000 + 2000)
            seen = iteration * 4000 + 500
            read_committed(broker.bootstrap_servers, topic, lambda found, seen=seen: len(found) >= seen)  # type: ignore[misc]
            log.rename(tmp_path / f"app.log.{iteration}")
            add(log, iteration * 4000 + 2000, iteration * 4000 + 4000)
            agent.kill()
        agent.start()
        found = read_committed(broker.bootstrap_servers, topic, lambda found: len(found) >= 20_000)
        assert agent.stop()[0] == 0
        assert sorted(found) == sorted(lines(20_000))


def test_a_killed_broker_loses_and_doubles_nothing(tmp_path: Path) -> None:
    log, topic = tmp_path / "app.log", "logs"
    with BrokerProcess(tmp_path / "data") as broker:
        agent = AgentProcess(broker.bootstrap_servers, topic, str(log), "--agent", "a")
        add(log, 0, 100)
        agent.start()
        for iteration in range(3):
            seen = iteration * 1000 + 100
            read_committed(broker.bootstrap_servers, topic, lambda found, seen=seen: len(found) >= seen)  # type: ignore[misc]
            add(log, seen, seen + 1000)
            broker.kill()
            broker.start()
        found = read_committed(broker.bootstrap_servers, topic, lambda found: len(found) >= 3100)
        assert agent.stop()[0] == 0
        assert found == lines(3100)


def test_the_second_agent_of_a_name_takes_over(tmp_path: Path) -> None:
    """Both would restart indefinitely: the first one detects it and stops with an error."""
    log, topic = tmp_path / "app.log", "logs"
    with EmbeddedBroker() as broker:
        agents = [
            AgentProcess(broker.bootstrap_servers, topic, str(log), "--agent", "twin") for _ in range(2)
        ]
        for agent in agents:
            agent.start()
        codes: list[int] = []
        number = 0
        deadline = time.monotonic() + DEADLINE
        while not codes and time.monotonic() < deadline:
            add(log, number, number + 1)
            number += 1
            time.sleep(0.05)  # the log grows at its own pace
            codes = [code for code in (_ended(agent) for agent in agents) if code is not None]
        assert codes == [1]
        survivor = next(agent for agent in agents if _ended(agent) is None)
        loser = next(agent for agent in agents if agent is not survivor)
        assert "another agent named twin is running" in loser.wait()[1]
        found = read_committed(broker.bootstrap_servers, topic, lambda found: len(found) >= number)
        assert survivor.stop()[0] == 0
        assert found == lines(number)


def _ended(agent: AgentProcess) -> int | None:
    assert agent._process is not None
    return agent._process.poll()


@pytest.mark.parametrize(
    "directive",
    [
        "create",
        "copytruncate compress",
        *(pytest.param(one, marks=pytest.mark.extended) for one in ("copytruncate", "compress")),
    ],
)
def test_logrotate_itself_loses_and_doubles_nothing(directive: str, tmp_path: Path) -> None:
    (logrotate,) = find("logrotate")
    log, topic = tmp_path / "app.log", "logs"
    config, state = tmp_path / "rotate.conf", tmp_path / "state"
    options = "\n".join(["rotate 50", "missingok", *directive.split()])
    config.write_text(f"{log} {{\n{options}\n}}\n")
    config.chmod(0o644)
    tmp_path.chmod(0o755)
    with EmbeddedBroker() as broker:
        agent = AgentProcess(broker.bootstrap_servers, topic, f"{log}*", "--agent", "a")
        agent.start()
        for iteration in range(12):
            add(log, iteration * 100, iteration * 100 + 100)
            done = subprocess.run(
                [logrotate, "--force", "--state", str(state), str(config)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            if iteration % 4 == 3:
                agent.kill()
                agent.start()
        add(log, 1200, 1201)
        found = read_committed(broker.bootstrap_servers, topic, lambda found: len(found) >= 1201)
        assert agent.stop()[0] == 0
        assert sorted(found) == sorted(lines(1201))


def test_an_endless_line_and_a_bomb_are_dead_letters_in_bounded_memory(tmp_path: Path) -> None:
    """Each of them is larger than the bound."""
    log, bomb, topic = tmp_path / "app.log", tmp_path / "old.log.gz", "logs"
    with log.open("wb") as file:
        file.truncate(ENDLESS)  # zeros that take no disk
        file.seek(ENDLESS)
        file.write(b"\nafter the line\n")
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        for _ in range(ENDLESS // PIECE):
            file.write(bytes(PIECE))
        file.write(b"\nafter the bomb\n")
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        agent = AgentProcess(servers, topic, f"{tmp_path}/*.log*", "--agent", "a")
        agent.start()
        found = read_committed(servers, topic, lambda found: len(found) >= 2)
        letters = read_committed(servers, f"{topic}.dead-letters", lambda found: len(found) >= 2)
        assert agent.memory_peak < BOUND, f"{agent.memory_peak:,}"
        code, output = agent.stop()
    assert code == 0, output
    assert sorted(found) == ["after the bomb", "after the line"]
    assert sorted(map(len, letters)) == [0, 64 * 1024]
    assert output.count(f"a line of {ENDLESS} bytes exceeds") == 2
