"""A cluster from the command line: ZooKeeper and brokers as processes, and error messages."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cluster.zookeeper.process import ZooKeeperProcess, answers
from tests.support.kafka.broker import answers_api_versions
from tests.support.programs import free_port
from tests.support.zookeeper import require_zookeeper

BARNABAS = [sys.executable, "-m", "barnabas"]
SECONDS = 60


_started: list[subprocess.Popen[str]] = []


def start(*arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*BARNABAS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    _started.append(process)
    return process


@pytest.fixture(autouse=True)
def leave_nothing_running() -> Iterator[None]:
    yield
    while _started:
        end(_started.pop())


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BARNABAS, *arguments], input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def lines_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """The output up to the first line with this text; pytest's timeout is the limit."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"the process ended with {process.wait()}:\n{''.join(lines)}")


def end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait(SECONDS)
    if process.stdout is not None:
        process.stdout.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    require_zookeeper()
    with ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper")) as process:
        yield process


def test_zookeeper_start_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    require_zookeeper()
    process = start("zookeeper", "start", "--data", str(tmp_path), "--port", "0")
    try:
        address = lines_until(process, "ZooKeeper is ready on ")[-1].split()[-1]
        host, _, port = address.rpartition(":")
        assert answers(host, int(port))
    finally:
        end(process)
    assert process.returncode == 0
    assert not answers(host, int(port))


@pytest.mark.slow
def test_cluster_start_runs_three_brokers_and_stops_them_all(tmp_path: Path) -> None:
    require_zookeeper()
    process = start("cluster", "start", "--brokers", "3", "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    try:
        output = "".join(lines_until(process, "The cluster is ready on "))
        bootstrap = output.split()[-1]
        pids = [int(pid) for pid in re.findall(r"pid (\d+)", output)]
        assert len(pids) == 4
        assert run("produce", "greetings", "-b", bootstrap, stdin="hello\n").returncode == 0
        os.kill(pids[0], signal.SIGKILL)
        assert "broker 1 exited with code -9" in lines_until(process, "broker 1 exited")[-1]
        read = run("consume", "greetings", "--from", "beginning", "--exit-at-end", "-b", bootstrap)
        assert (read.stdout, read.stderr) == ("hello\n", "")
        command = lines_until(process, "start it again with: ")[-1].partition(": ")[2]
        restarted = start(*shlex.split(command)[1:])
        assert lines_until(restarted, "Barnabas is ready on ")[-1].split()[-1] == bootstrap.split(",")[0]
        end(restarted)
    finally:
        end(process)
    assert process.returncode == 0
    assert not any(is_alive(pid) for pid in pids)


def test_two_brokers_as_processes_find_each_other(zookeeper: ZooKeeperProcess, tmp_path: Path) -> None:
    ports = {node_id: free_port() for node_id in (1, 2)}
    processes = [
        start("serve", *broker(zookeeper, "/two", node_id, tmp_path / str(node_id), port))
        for node_id, port in ports.items()
    ]
    try:
        for process in processes:
            lines_until(process, "Barnabas is ready on ")
        described = run("cluster", "describe", "-b", f"127.0.0.1:{ports[1]}", "-o", "json")
        assert all(f'"127.0.0.1:{port}"' in described.stdout for port in ports.values())
    finally:
        for process in processes:
            end(process)
    assert [process.returncode for process in processes] == [0, 0]
    assert not any(answers_api_versions("127.0.0.1", port) for port in ports.values())


def broker(zookeeper: ZooKeeperProcess, path: str, node_id: int, data: Path, port: int = 0) -> list[str]:
    return [
        *("--node-id", str(node_id), "--zookeeper", f"{zookeeper.address}{path}"),
        *("--data", str(data), "--listen", f"127.0.0.1:{port}"),
    ]


def test_an_unreachable_zookeeper_is_named(tmp_path: Path) -> None:
    ended = run(
        *("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0", "--zookeeper", "127.0.0.1:1"),
        *("--set", "zookeeper.connection.timeout.ms=300"),
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(
        "Error: ZooKeeper cannot be used at 127.0.0.1:1: no answer for 0.3 s"
    )
    assert "Traceback" not in ended.stderr


def test_a_wrong_address_of_zookeeper_is_explained(tmp_path: Path) -> None:
    ended = run("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0", "--zookeeper", "host:port")
    assert ended.returncode == 2
    assert "zookeeper.connect" in ended.stderr
    assert "zk1:2181,zk2:2181" in ended.stderr


def test_a_folder_of_a_node_alone_is_refused_with_the_way_on(
    zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    alone = start("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    lines_until(alone, "Barnabas is ready on ")
    end(alone)
    ended = run("serve", *broker(zookeeper, "/empty", 1, tmp_path))
    assert ended.returncode == 1
    assert "barnabas cluster adopt" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_second_broker_with_the_same_id_is_refused(zookeeper: ZooKeeperProcess, tmp_path: Path) -> None:
    short = ("--set", "zookeeper.session.timeout.ms=1500")
    first = start("serve", *broker(zookeeper, "/same", 1, tmp_path / "a"), *short)
    try:
        lines_until(first, "Barnabas is ready on ")
        ended = run("serve", *broker(zookeeper, "/same", 1, tmp_path / "b"), *short)
        assert ended.returncode == 1
        assert "another broker with node.id 1 is running" in ended.stderr
        assert "Traceback" not in ended.stderr
    finally:
        end(first)


def test_a_broker_with_another_id_does_not_get_the_folder(
    zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    first = start("serve", *broker(zookeeper, "/folder", 1, tmp_path))
    lines_until(first, "Barnabas is ready on ")
    end(first)
    ended = run("serve", *broker(zookeeper, "/folder", 2, tmp_path))
    assert ended.returncode == 1
    assert "belongs to node 1" in ended.stderr


def test_a_folder_of_another_cluster_is_refused_with_both_names(
    zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    first = start("serve", *broker(zookeeper, "/one-cluster", 1, tmp_path / "mine"))
    other = start("serve", *broker(zookeeper, "/another-cluster", 1, tmp_path / "other"))
    for process in (first, other):
        lines_until(process, "Barnabas is ready on ")
        end(process)
    ended = run("serve", *broker(zookeeper, "/another-cluster", 1, tmp_path / "mine"))
    assert ended.returncode == 1
    assert "this broker belongs to cluster" in ended.stderr
    assert "Correct zookeeper.connect, or use another data folder" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_two_brokers_that_advertise_one_address_are_refused(
    zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    short = ("--set", "zookeeper.session.timeout.ms=1500")
    clash = ("--set", "advertised.listeners=PLAINTEXT://127.0.0.1:9999")
    first = start("serve", *broker(zookeeper, "/clash", 1, tmp_path / "a"), *short, *clash)
    lines_until(first, "Barnabas is ready on ")
    ended = run("serve", *broker(zookeeper, "/clash", 2, tmp_path / "b"), *short, *clash)
    assert ended.returncode == 1
    assert "127.0.0.1:9999" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_node_alone_grows_into_a_cluster_with_its_topics_and_records(
    zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    first_port, second_port = free_port(), free_port()
    here = f"127.0.0.1:{first_port}"
    alone = start("serve", "--data", str(tmp_path / "1"), "--listen", here)
    lines_until(alone, "Barnabas is ready on ")
    assert run("topics", "create", "orders", "-b", here, "--set", "retention.ms=-1").returncode == 0
    assert run("produce", "orders", "-b", here, stdin="one\ntwo\n").returncode == 0
    end(alone)
    connect = f"{zookeeper.address}/grown"
    adopted = run("cluster", "adopt", "--data", str(tmp_path / "1"), "--zookeeper", connect)
    assert adopted.returncode == 0, adopted.stderr
    assert "with 1 topics is now in ZooKeeper" in adopted.stdout
    brokers = [start("serve", *broker(zookeeper, "/grown", 1, tmp_path / "1", first_port))]
    try:
        lines_until(brokers[0], "Barnabas is ready on ")
        brokers.append(start("serve", *broker(zookeeper, "/grown", 2, tmp_path / "2", second_port)))
        lines_until(brokers[1], "Barnabas is ready on ")
        there = f"127.0.0.1:{second_port}"
        read = run("consume", "orders", "--from", "beginning", "--exit-at-end", "-b", there)
        assert read.stdout == "one\ntwo\n"
        assert "retention.ms=-1" in run("topics", "describe", "orders", "-b", there).stdout
        assert run("topics", "create", "wide", "-b", here, "--replication-factor", "2").returncode == 0
    finally:
        for process in brokers:
            end(process)


def test_cluster_without_a_single_node_cannot_be_adopted(zookeeper: ZooKeeperProcess, tmp_path: Path) -> None:
    ended = run("cluster", "adopt", "--data", str(tmp_path), "--zookeeper", f"{zookeeper.address}/x")
    assert ended.returncode == 1
    assert "there is nothing to adopt" in ended.stderr


def test_a_running_node_and_a_used_zookeeper_are_refused(zookeeper: ZooKeeperProcess, tmp_path: Path) -> None:
    folders = (tmp_path / "1", tmp_path / "2")
    nodes = [start("serve", "--data", str(folder), "--listen", "127.0.0.1:0") for folder in folders]
    connect = f"{zookeeper.address}/taken"
    for node in nodes:
        lines_until(node, "Barnabas is ready on ")
    running = run("cluster", "adopt", "--data", str(folders[0]), "--zookeeper", connect)
    assert running.returncode == 1
    assert "another broker is using" in running.stderr
    for node in nodes:
        end(node)
    assert run("cluster", "adopt", "--data", str(folders[0]), "--zookeeper", connect).returncode == 0
    taken = run("cluster", "adopt", "--data", str(folders[1]), "--zookeeper", connect)
    assert taken.returncode == 1
    assert "holds a cluster already" in taken.stderr
