"""`barnabas serve --processes`: signals, companions, and what is refused in one sentence before anything is touched."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from barnabas.cluster import FileMetadataStore
from barnabas.cluster.deltas import BrokerStored, ClusterCreated, FeatureFinalized
from barnabas.cluster.features import METADATA_VERSION
from barnabas.cluster.hub.hub import finish_now, run_inline
from barnabas.cluster.image import BrokerState
from barnabas.common.files import LocalFileSystem
from tests.broker.processes.nodes import Node, create_topic, free_ports, leaders
from tests.support.waiting import until


def test_signals_stop_the_node_or_restart_a_process(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    marker = tmp_path / "data" / ".kafka_cleanshutdown"
    inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # a node under nohup ignores it
    request.addfinalizer(lambda: signal.signal(signal.SIGHUP, inherited))
    with Node(tmp_path / "data") as node:
        for to_process, to_node in ((signal.SIGTERM, signal.SIGHUP), (signal.SIGHUP, signal.SIGINT)):
            node.start(2)
            assert not marker.exists()
            create_topic(node, f"topic-{to_node.name}", 4)
            before, other = node.pid(1), node.pid(0)
            os.kill(before, signal.SIGINT)  # of a terminal: it is for the supervisor
            os.kill(before, to_process)
            until_started_again(node, before)
            until_led_by_both(node, f"topic-{to_node.name}")
            assert node.pid(0) == other
            assert node.stop(to_node) == 0
            assert marker.exists()


def test_a_companion_outlives_process_0_and_knows_all_ports(tmp_path: Path) -> None:
    registry = free_ports(1)
    with Node(tmp_path / "data", "--registry", f"127.0.0.1:{registry}").start(2) as node:
        until(
            lambda: "ready" in "".join(each for each in node.lines if "registry" in each.lower()), node.lines
        )
        url = f"http://127.0.0.1:{registry}/subjects"
        assert urllib.request.urlopen(url).read() == b"[]"
        pid = companion_of(node)
        node.kill(0)
        until(lambda: set(leaders(node, "_schemas").values()) <= {1, 1001})
        assert companion_of(node) == pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: companion_of(node) not in (0, pid), "the registry is not started again")
        assert node.stop() == 0
        until(lambda: not Path(f"/proc/{pid}").exists())


def until_started_again(node: Node, before: int) -> None:
    until(lambda: node.pid(1) != before, "process 1 is not started again", every=0.01)


def until_led_by_both(node: Node, topic: str) -> None:
    until(lambda: set(leaders(node, topic).values()) == {1, 1001})


def test_one_address_has_the_metrics_and_the_health_of_all_processes(tmp_path: Path) -> None:
    port = free_ports(1)
    with Node(tmp_path / "data", "--set", f"barnabas.metrics.listen=127.0.0.1:{port}").start(2) as node:
        url = f"http://127.0.0.1:{port}"
        until(lambda: health(url)["status"] == "up")
        create_topic(node, "orders", 4)
        page = urllib.request.urlopen(f"{url}/metrics").read().decode()
        heads = re.findall("^# TYPE .*$", page, re.MULTILINE)
        assert len(heads) == len(set(heads))
        for broker in (1, 1001):
            assert f'barnabas_process_up{{broker="{broker}"}} 1\n' in page
            leader_count = rf'^kafka_server_replicamanager_leadercount{{broker="{broker}"}} (\d+)$'
            assert re.findall(leader_count, page, re.MULTILINE) == ["2"]
        assert (
            len(re.findall("^kafka_brokers{", page, re.MULTILINE)) == 1
        )  # a value of the cluster is there once
        os.kill(node.pid(1), signal.SIGSTOP)
        assert health(url)["processes"] | {"1": {}} == {"1": {}, "1001": {"status": "down"}}
        os.kill(node.pid(1), signal.SIGCONT)
        until(lambda: health(url)["status"] == "up")
        node.kill(1)
        until(lambda: health(url)["status"] == "up")
        kill_metrics_process(node)
        until(lambda: health(url)["status"] == "up", ignoring=OSError)
        assert node.stop() == 0


def health(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{url}/health") as response:
            found: dict[str, Any] = json.load(response)
    except urllib.error.HTTPError as error:
        found = json.load(error)
    return found


def kill_metrics_process(node: Node) -> None:
    children = Path(f"/proc/{node.supervisor_pid}/task/{node.supervisor_pid}/children").read_text().split()
    (pid,) = set(map(int, children)) - {node.pid(0), node.pid(1)}
    os.kill(pid, signal.SIGKILL)


def companion_of(node: Node) -> int:
    """The registry's process, a child of the supervisor."""
    children = Path(f"/proc/{node.supervisor_pid}/task/{node.supervisor_pid}/children").read_text().split()
    for child in children:
        with contextlib.suppress(OSError):  # it has just exited
            if b"registry\0run" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    return 0


def serve(data: Path, *options: str) -> str:
    """Standard error of a node that must not start."""
    command = [sys.executable, "-m", "barnabas", "serve", "--data", str(data), "--processes", "2", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_companion_on_a_port_of_another_process_is_refused(tmp_path: Path) -> None:
    error = serve(tmp_path / "data", "--listen", "127.0.0.1:9092", "--registry", "127.0.0.1:9093")
    assert re.search(r"port 9093 .* which --registry has: set barnabas.processes.port.step", error)
    assert not (tmp_path / "data").exists()


def test_a_data_folder_in_use_is_refused(tmp_path: Path) -> None:
    with Node(tmp_path / "data").start(1) as node:
        assert "another broker is using" in serve(tmp_path / "data", "--listen", f"127.0.0.1:{free_ports(2)}")
        assert node.stop() == 0


@pytest.mark.parametrize(
    ("deltas", "message"),
    [
        ([BrokerStored(BrokerState(1001, 1))], "process 1 of node 1 would be broker 1001"),
        ([FeatureFinalized(METADATA_VERSION, 30_000)], "has finalized 30000: upgrade this broker"),
    ],
)
def test_a_folder_that_other_brokers_or_versions_have_written_is_refused(
    tmp_path: Path, deltas: list[BrokerStored | FeatureFinalized], message: str
) -> None:
    data = tmp_path / "data"
    (data / "__barnabas_metadata").mkdir(parents=True)
    store = FileMetadataStore(LocalFileSystem(), str(data / "__barnabas_metadata"), run_blocking=run_inline)
    image = finish_now(store.load())
    finish_now(store.append(image.offset, image.controller_epoch, [ClusterCreated("abc"), *deltas]))
    finish_now(store.close())
    before = {path.name: path.read_bytes() for path in (data / "__barnabas_metadata").iterdir()}
    assert message in serve(data, "--listen", f"127.0.0.1:{free_ports(2)}")
    assert {path.name: path.read_bytes() for path in (data / "__barnabas_metadata").iterdir()} == before
