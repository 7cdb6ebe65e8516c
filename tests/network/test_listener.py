"""Listeners, and the advertised address."""

from __future__ import annotations

import errno
import socket
from types import SimpleNamespace

import pytest

from barnabas.network.listener import RETRY_ACCEPT_SECONDS, Listener, plain_address
from tests.support.server import echo, heartbeat, heartbeat_frame, scenario, serving
from tests.support.waiting import async_until


@scenario
async def test_client_gets_the_address_through_which_it_connected() -> None:
    async with serving(heartbeat(echo)) as server:
        await server.connect()
        await server.connections_become(1)
        (connection,) = server.server.connections
        assert connection.listener.advertised(connection) == ("127.0.0.1", server.port)


def test_client_gets_the_advertised_address_if_one_is_set() -> None:
    listener = Listener("X", "0.0.0.0", 9092, advertised=("broker.example", 19092))
    connection = SimpleNamespace(local_address=("10.0.0.1", 9092))
    assert listener.advertised(connection) == ("broker.example", 19092)


@pytest.mark.parametrize(
    ("advertised", "peer", "local", "words"),
    [
        ("localhost", "10.0.0.5", "10.0.0.1", "is localhost, which is its own host"),
        ("127.0.0.1", "10.0.0.5", "10.0.0.1", "which is its own host"),
        (None, "8.8.8.8", "172.17.0.2", "is 172.17.0.2, which is an address behind NAT"),
        (None, "10.0.0.5", "10.0.0.1", ""),
        (None, "127.0.0.1", "127.0.0.2", ""),
        ("localhost", "127.0.0.1", "127.0.0.1", ""),
        ("broker.example", "8.8.8.8", "172.17.0.2", ""),
        (None, "fe80::1%eth0", "fe80::2%eth0", ""),
    ],
)
def test_a_client_that_will_not_find_us_again_is_noticed_once(
    advertised: str | None, peer: str, local: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener("OUT", "", 9092, advertised=(advertised, 9092) if advertised else None)
    listener.check_reachable(peer, local)
    listener.check_reachable(peer, local)
    assert len(caplog.records) == bool(words)
    assert words in caplog.text


def test_ipv4_clients_of_an_ipv6_socket_are_shown_by_their_ipv4_address() -> None:
    assert plain_address(("::ffff:10.1.2.3", 5, 0, 0)) == ("10.1.2.3", 5)
    assert plain_address(("fe80::1", 5, 0, 0)) == ("fe80::1", 5)
    assert plain_address(("10.1.2.3", 5)) == ("10.1.2.3", 5)


def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    first = Listener("A", "127.0.0.1", 0)
    first.open()
    try:
        with pytest.raises(OSError, match=str(first.port)) as caught:
            Listener("B", "127.0.0.1", first.port).open()
        assert caught.value.errno == errno.EADDRINUSE
    finally:
        first.close()


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
def test_an_empty_host_listens_on_ipv4_too() -> None:
    listener = Listener("ALL", "", 0)
    listener.open()
    try:
        with socket.create_connection(("127.0.0.1", listener.port)) as client:
            assert client.getpeername() == ("127.0.0.1", listener.port)
    finally:
        listener.close()


def test_a_machine_without_ipv6_still_listens_on_all_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    def without_ipv6(family: int, *args: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, *args)

    monkeypatch.setattr("barnabas.network.listener.socket.socket", without_ipv6)
    listener = Listener("ALL", "", 0)
    listener.open()
    monkeypatch.undo()
    try:
        with socket.create_connection(("127.0.0.1", listener.port)) as client:
            assert client.getpeername() == ("127.0.0.1", listener.port)
    finally:
        listener.close()


def test_host_name_is_resolved_and_an_unknown_one_is_an_error_that_names_it() -> None:
    listener = Listener("L", "localhost", 0)
    listener.open()
    try:
        socket.create_connection(("localhost", listener.port)).close()
    finally:
        listener.close()
    with pytest.raises(OSError, match=r"cannot listen on no\.such\.host\.invalid:9092"):
        Listener("L", "no.such.host.invalid", 9092).open()


def test_connection_buffers_have_the_requested_size() -> None:
    listener = Listener("L", "127.0.0.1", 0, receive_buffer=8192, send_buffer=16384)
    listener.open()
    try:
        assert listener._socket is not None
        sizes = [
            listener._socket.getsockopt(socket.SOL_SOCKET, option)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF)
        ]
    finally:
        listener.close()
    # Linux doubles the requested size for its bookkeeping.
    assert sizes in ([8192, 16384], [2 * 8192, 2 * 16384])


@scenario
async def test_running_out_of_descriptors_pauses_accepting_and_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("barnabas.network.listener.RETRY_ACCEPT_SECONDS", RETRY_ACCEPT_SECONDS / 50)
    async with serving(heartbeat(echo)) as server:
        (listener,) = server.server.listeners
        real, failures = listener._socket, []

        class Exhausted:
            def accept(self) -> None:
                failures.append(1)
                listener._socket = real  # the next attempt finds descriptors again
                raise OSError(errno.EMFILE, "Too many open files")

            def fileno(self) -> int:
                assert real is not None
                return real.fileno()

        listener._socket = Exhausted()  # type: ignore[assignment]
        client = await server.connect()
        await client.send(heartbeat_frame(1))
        await async_until(lambda: bool(failures))
        assert await client.correlation_ids(1) == [1]
