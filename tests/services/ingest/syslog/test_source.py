"""A syslog source in an agent, with sending sockets."""

from __future__ import annotations

import socket
import ssl
import time
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from barnabas.config.setting import ConfigError
from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.security.tls.authority import Authority
from barnabas.services.ingest.sockets import listener as datagrams_module
from barnabas.services.ingest.sockets import listener as listener_module
from barnabas.services.ingest.sockets.endpoints import SocketEndpoint, endpoints_of
from barnabas.services.ingest.syslog.source import SyslogSettings, SyslogSource
from barnabas.testing import EmbeddedBroker
from tests.services.ingest.running import Found, RunningAgent, read_records, read_until
from tests.support.brokers import BrokerProcess
from tests.support.waiting import until

LISTEN = "127.0.0.1:0"


def source(topic: str = "syslog", /, **settings: object) -> SyslogSource:
    values = {"listen": LISTEN, "topic": topic, **settings}
    return SyslogSource("syslog", SyslogSettings(**values))  # type: ignore[arg-type]


def address(of: SyslogSource, transport: str) -> tuple[str, int]:
    host, port = next(each.address for each in of.endpoints if each.transport == transport)
    return host, port


def send_tcp(of: SyslogSource, data: bytes) -> None:
    with socket.create_connection(address(of, "tcp")) as connection:
        connection.sendall(data)


def texts(bootstrap: str, topic: str, count: int) -> list[str]:
    return [msgspec.json.decode(each.value)["message"] for each in read_records(bootstrap, topic, count)]


def test_messages_over_udp_and_tcp_are_records_with_the_host_as_key(bootstrap: str) -> None:
    topic = f"syslog-{uuid4().hex}"
    syslog = source(topic, headers=(("env", b"test"),))
    with RunningAgent(bootstrap, [syslog]):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b'<34>1 2026-11-17T12:00:00Z web1 app 7 ID [a b="c"] one\n', address(syslog, "udp"))
        until(lambda: syslog.counts.received == 1, "the datagram")
        send_tcp(syslog, b"<13>Oct 11 22:14:15 web1 su[3]: two\n6 <13>xy<13>no newline")
        found = read_records(bootstrap, topic, 4)
    values = [msgspec.json.decode(each.value) for each in found]
    assert sorted(value["message"] for value in values) == ["no newline", "one", "two", "xy"]
    one = next(each for each in found if b'"one"' in each.value)
    assert one.key == b"web1"
    assert one.headers == {"env": b"test", "peer": b"127.0.0.1"}
    assert next(each for each in found if b'"xy"' in each.value).key == b"127.0.0.1"
    assert syslog.counts.received == 4


def test_raw_records_are_the_bytes_that_came(embedded: EmbeddedBroker) -> None:
    topic = f"syslog-{uuid4().hex}"
    syslog = source(topic, format="raw", key="all", compression="lz4")
    with RunningAgent(embedded.bootstrap_servers, [syslog]):
        send_tcp(syslog, b"<34>1 - h - - - - \xff\xfe\nno syslog\n")
        found = read_records(embedded.bootstrap_servers, topic, 2)
    assert [each.value for each in found] == [b"<34>1 - h - - - - \xff\xfe", b"no syslog"]
    assert {each.key for each in found} == {b"all"}
    assert (found[0].headers["severity"], found[0].headers["host"]) == (b"crit", b"h")
    assert [each.headers["parsed"] for each in found] == [b"true", b"false"]
    assert syslog.counts.unparsed == 1


def test_invalid_count_closes_the_connection_and_keeps_earlier_frames(
    embedded: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"syslog-{uuid4().hex}"
    syslog = source(topic)
    with RunningAgent(embedded.bootstrap_servers, [syslog]):
        with socket.create_connection(address(syslog, "tcp")) as connection:
            connection.sendall(b"<13>a: good\n99999999 <13>a: never")
            connection.settimeout(30)
            assert _is_closed(connection)
        assert texts(embedded.bootstrap_servers, topic, 1) == ["good"]
        assert syslog.counts.framing_errors == 1
        assert syslog.counts.connections == 0
    assert ": an octet count has more than 5 digits" in caplog.text


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_more_connections_than_allowed_are_closed_and_idle_ones_too(
    embedded: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "SWEEP_SECONDS", 0.02)
    syslog = source(f"syslog-{uuid4().hex}", connections=2, idle_timeout=1.0)
    with RunningAgent(embedded.bootstrap_servers, [syslog]):
        both = [socket.create_connection(address(syslog, "tcp")) for _ in range(2)]
        until(lambda: syslog.counts.connections == 2, "two connections")
        with socket.create_connection(address(syslog, "tcp")) as third:
            third.settimeout(30)
            assert _is_closed(third)
        assert syslog.counts.refused == 1
        for each in both:
            each.settimeout(30)
            assert _is_closed(each)
            each.close()
        assert syslog.counts.connections == 0


def test_records_larger_than_the_topic_allows_are_truncated(embedded: EmbeddedBroker) -> None:
    topic = f"syslog-{uuid4().hex}"
    embedded.create_topic(topic, configs={"max.message.bytes": "10000"})
    syslog = source(topic, max_message_bytes=20_000)
    with RunningAgent(embedded.bootstrap_servers, [syslog]):
        send_tcp(syslog, b"<13>a: " + b"\x01" * 15_000 + b"\n<13>a: " + b"y" * 30_000 + b"\n<13>a: next\n")
        found = [
            msgspec.json.decode(each.value) for each in read_records(embedded.bootstrap_servers, topic, 3)
        ]
    assert [each.get("truncated", False) for each in found] == [True, True, False]
    assert found[2]["message"] == "next"
    assert syslog.counts.truncated == 2


def test_a_full_inbox_makes_tcp_wait_and_udp_drops_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker is away: memory is bounded. When it is back all that TCP sent arrives, once."""
    monkeypatch.setattr(datagrams_module, "KERNEL_BUFFER", 100_000)
    text = b"x" * 10_000
    with BrokerProcess(tmp_path / "data") as broker:
        syslog = source()
        inbox = syslog._inbox
        inbox._limit = 200_000
        with RunningAgent(broker.bootstrap_servers, [syslog]) as running:
            send_tcp(syslog, b"<13>a: first\n")
            assert texts(broker.bootstrap_servers, "syslog", 1) == ["first"]
            broker.kill()
            sender = socket.create_connection(address(syslog, "tcp"))
            sender.settimeout(0.5)
            sent, rest = _send_until_it_waits(sender, text)
            until(lambda: inbox.is_full, "the inbox is full")
            assert inbox.size < 200_000 + 400_000  # limit of one read
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
                for _ in range(100):
                    datagrams.sendto(b"<13>u: " + text, address(syslog, "udp"))
            broker.start()
            sender.settimeout(60)
            sender.sendall(rest)
            sender.close()
            until(lambda: syslog.counts.connections == 0, "all is read")
            until(lambda: len(inbox) == 0, "all is taken")
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
                datagrams.sendto(b"<13>u: end", address(syslog, "udp"))
            until(lambda: syslog.counts.dropped, "drops")
            assert running.error is None
        found = read_until(broker.bootstrap_servers, "syslog", lambda found: len(_numbers(found)) >= sent)
        assert sorted(_numbers(found)) == list(range(sent))


def _numbers(found: list[Found]) -> list[int]:
    texts = [msgspec.json.decode(each.value)["message"] for each in found]
    return [int(text[1:].split()[0]) for text in texts if text.startswith("n")]


def _send_until_it_waits(sender: socket.socket, text: bytes) -> tuple[int, bytes]:
    """Number of messages, and the unsent rest of the last one."""
    for number in range(10_000):
        message = b"<13>a: n%d %s\n" % (number, text)
        try:
            while message:
                message = message[sender.send(message) :]
        except TimeoutError:
            return number + 1, message
    raise AssertionError("nobody made the sender wait")


def test_a_broker_that_dies_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        syslog = source()
        with RunningAgent(broker.bootstrap_servers, [syslog]) as running:
            with socket.create_connection(address(syslog, "tcp")) as sender:
                for number in range(3000):
                    sender.sendall(b"<13>a: %d\n" % number)
                    if number % 1000 == 500:
                        until(lambda: running.agent and running.agent.counts.transactions, "a transaction")
                        broker.kill()
                        broker.start()
            found = texts(broker.bootstrap_servers, "syslog", 3000)
        assert found == [str(number) for number in range(3000)]


def test_received_messages_are_committed_before_the_agent_ends(embedded: EmbeddedBroker) -> None:
    topic = f"syslog-{uuid4().hex}"
    syslog = source(topic)
    data = b"".join(b"<13>a: %d\n" % number for number in range(20_000)) + b"<13>a: half"
    with (
        RunningAgent(embedded.bootstrap_servers, [syslog]) as running,
        socket.create_connection(address(syslog, "tcp")) as connection,
    ):
        connection.sendall(data)
        until(lambda: syslog.counts.received == 20_000, "all of them")
        running.stop()
    assert len(texts(embedded.bootstrap_servers, topic, 20_001)) == 20_001


def test_tls_and_a_certificate_of_the_client(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.provide(["127.0.0.1", "localhost"])
    topic = f"syslog-{uuid4().hex}"
    syslog = source(topic, tls_certificate=str(authority.broker), tls_client_ca=str(authority.certificate))
    assert [each.transport for each in endpoints_of(syslog.settings)] == ["tls"]
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    with RunningAgent(embedded.bootstrap_servers, [syslog]):
        host, port = address(syslog, "tls")
        with socket.create_connection((host, port)) as plain:
            plain.sendall(b"<13>a: no handshake\n")
            plain.settimeout(30)
            while plain.recv(100):
                pass
        with pytest.raises((ssl.SSLError, ConnectionError)):
            _send_tls(trusting, host, port)  # without a certificate
        until(lambda: syslog.counts.refused == 2, "both were refused")
        trusting.load_cert_chain(str(authority.client("sender")))
        _send_tls(trusting, host, port)
        assert texts(embedded.bootstrap_servers, topic, 2) == ["secret", "x" * 30_000]


def _send_tls(context: ssl.SSLContext, host: str, port: int) -> None:
    with (
        socket.create_connection((host, port)) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        secured.sendall(b"16 <13>a[1]: secret<13>a: " + b"x" * 30_000 + b"\n")
        secured.settimeout(30)
        secured.unwrap()


@pytest.mark.parametrize(
    ("values", "endpoints"),
    [
        ({"listen": "[::1]:514"}, ["udp://[::1]:514", "tcp://[::1]:514"]),
        ({"listen": ["udp://h:1", "tcp://h:2"]}, ["udp://h:1", "tcp://h:2"]),
        ({"listen": "h:6514", "tls_certificate": "c.pem"}, ["tls://h:6514"]),
    ],
)
def test_where_it_listens(values: dict[str, object], endpoints: list[str]) -> None:
    settings = SyslogSettings(topic="t", **values)  # type: ignore[arg-type]
    assert [str(each) for each in endpoints_of(settings)] == endpoints
    assert isinstance(endpoints_of(settings)[0], SocketEndpoint)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"listen": []}, "nothing to listen on"),
        ({"listen": "http://h:1"}, "unknown scheme http://"),
        ({"listen": "tls://h:1"}, "TLS needs a certificate"),
        ({"listen": "h:x"}, "no valid port"),
        ({"tls_key": "k.pem"}, "without tls_certificate"),
    ],
)
def test_contradictory_settings_are_rejected(settings: dict[str, object], message: str) -> None:
    with pytest.raises((ValueError, SecuritySettingError), match=message):
        source(**settings)


def test_a_listener_that_others_reach_is_warned_of(
    embedded: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    syslog = source(f"syslog-{uuid4().hex}", listen=["tcp://0.0.0.0:0", "udp://127.0.0.1:0"])
    with RunningAgent(embedded.bootstrap_servers, [syslog]):
        until(
            lambda: "reachable from other machines without authentication" in caplog.text,
            "the warning is there",
        )
    assert caplog.text.count("reachable from other machines without authentication") == 1


def test_a_certificate_that_is_missing_is_named(embedded: EmbeddedBroker) -> None:
    syslog = source(tls_certificate="/nowhere/c.pem")
    with (
        pytest.raises(ConfigError, match="tls_certificate"),
        RunningAgent(embedded.bootstrap_servers, [syslog]),
    ):
        time.sleep(0)
