"""Nodes in a network namespace, as in a container: which ports are published, and what clients outside are told."""

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.broker.processes.nodes import Node, Traffic, create_topic, free_ports
from tests.support.programs import find

pytestmark = pytest.mark.extended  # needs root

OUTSIDE, INSIDE = "10.217.31.1", "10.217.31.2"


@pytest.fixture
def namespace() -> Iterator[str]:
    """With one link to this host."""
    find("ip")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root here: sudo make node-processes")
    name = f"barnabas-{os.getpid()}"
    link = f"b{os.getpid()}"
    ip("netns", "add", name)
    try:
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("address", "add", f"{OUTSIDE}/30", "dev", link)
        ip("link", "set", link, "up")
        ip("-netns", name, "address", "add", f"{INSIDE}/30", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-netns", name, "link", "set", device, "up")
        yield name
    finally:
        ip("netns", "delete", name)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


class PublishedPort:
    """Forwards a port of this host to one of the container, as `docker run -p` does."""

    def __init__(self, outside: int, inside: int) -> None:
        self._inside = inside
        self._server = socket.create_server(("127.0.0.1", outside))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._server.accept()[0]
                broker = socket.create_connection((INSIDE, self._inside))
                for near, far in ((client, broker), (broker, client)):
                    threading.Thread(target=forward, args=(near, far), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


def forward(near: socket.socket, far: socket.socket) -> None:
    with suppress(OSError), near:
        while data := near.recv(65536):
            far.sendall(data)
        far.shutdown(socket.SHUT_WR)


def test_clients_outside_reach_all_processes_at_the_address_of_the_container(
    tmp_path: Path, namespace: str
) -> None:
    within = ("ip", "netns", "exec", namespace)
    with Node(tmp_path / "data", host="0.0.0.0", within=within) as node:
        node.bootstrap_host = INSIDE
        node.start(2)
        create_topic(node, "orders")
        assert Traffic(node, "orders").send(0.3).check() > 10
        assert node.stop() == 0


def test_a_range_of_published_ports_serves_clients_outside(tmp_path: Path, namespace: str) -> None:
    published = free_ports(2)
    options = ("--set", f"advertised.listeners=PLAINTEXT://127.0.0.1:{published}")
    within = ("ip", "netns", "exec", namespace)
    with Node(tmp_path / "data", *options, host="0.0.0.0", within=within) as node:
        node.start(2)
        forwarded = [PublishedPort(published + k, node.port + k) for k in range(2)]
        node.port = published
        create_topic(node, "orders")
        assert Traffic(node, "orders").send(0.3).check() > 10
        for each in forwarded:
            each.close()
        assert node.stop() == 0
