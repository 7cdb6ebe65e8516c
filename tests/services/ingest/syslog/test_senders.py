"""Programs that send syslog: rsyslogd, syslog-ng and logger, each with its own format."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from barnabas.security.tls.authority import Authority
from barnabas.services.ingest.syslog.parser import SyslogMessage
from barnabas.services.ingest.syslog.source import SyslogSettings, SyslogSource
from barnabas.testing import EmbeddedBroker
from tests.services.ingest.running import RunningAgent, read_records
from tests.support.programs import SERVERS, find, missing
from tests.support.waiting import until

SYSLOG_NG = Path(".cache/programs/syslog-ng").resolve()
TEXTS = [f'message {number} with "quotes" and é' for number in range(50)]


@pytest.fixture
def syslog(tmp_path: Path) -> SyslogSource:
    authority = Authority(tmp_path / "authority")
    authority.provide(["127.0.0.1", "localhost"])
    settings = SyslogSettings(
        topic=f"syslog-{uuid4().hex}",
        listen=["udp://127.0.0.1:0", "tcp://127.0.0.1:0", "tls://127.0.0.1:0"],
        tls_certificate=str(authority.broker),
    )
    return SyslogSource("syslog", settings)


def port(of: SyslogSource, transport: str) -> int:
    return next(each.address.port for each in of.endpoints if each.transport == transport)


def messages(broker: EmbeddedBroker, of: SyslogSource, count: int) -> list[SyslogMessage]:
    found = read_records(broker.bootstrap_servers, of.settings.topic, count)
    return [msgspec.json.decode(each.value, type=SyslogMessage) for each in found]


@contextmanager
def running(command: list[str], local: Path, environment: dict[str, str] | None = None) -> Iterator[None]:
    """A daemon in the foreground that receives local log messages."""
    log = local.with_suffix(".output")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **(environment or {})}
        )
    try:
        until(lambda: local.exists() or process.poll() is not None, "the daemon listens")
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        process.wait(60)


def log_locally(local: Path, texts: list[str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(str(local))
        for text in texts:
            sender.send(f"<29>Nov 17 12:00:00 shop[42]: {text}".encode())


def check(found: list[SyslogMessage], texts: list[str]) -> None:
    assert [each.message for each in found] == texts
    assert {(each.facility, each.severity, each.app, each.procid) for each in found} == {
        ("daemon", "notice", "shop", "42")
    }
    assert all(each.parsed and each.host and each.time for each in found)


@pytest.mark.parametrize(
    ("transport", "options", "template"),
    [
        ("tcp", 'TCP_Framing="octet-counted"', "RSYSLOG_SyslogProtocol23Format"),
        ("tcp", 'TCP_Framing="traditional"', "RSYSLOG_TraditionalForwardFormat"),
        ("udp", "", "RSYSLOG_ForwardFormat"),
        ("tls", "gtls", "RSYSLOG_SyslogProtocol23Format"),
        ("tls", "ossl", "RSYSLOG_ForwardFormat"),
    ],
)
def test_rsyslogd(
    transport: str,
    options: str,
    template: str,
    syslog: SyslogSource,
    embedded: EmbeddedBroker,
    tmp_path: Path,
) -> None:
    (rsyslogd,) = find("rsyslogd")
    texts = list(TEXTS)
    if "octet" in options:
        texts[7] = "two\nlines"
    secured = ""
    if transport == "tls":
        _needs_driver(options)
        secured = (
            f'DefaultNetstreamDriver="{options}" DefaultNetstreamDriverCAFile="{tmp_path}/authority/ca.pem"'
        )
        options = f'StreamDriver="{options}" StreamDriverMode="1" StreamDriverAuthMode="x509/certvalid"'
        options += ' TCP_Framing="octet-counted"'
    local, config = tmp_path / "log", tmp_path / "rsyslog.conf"
    with RunningAgent(embedded.bootstrap_servers, [syslog]):
        protocol = "udp" if transport == "udp" else "tcp"
        config.write_text(
            f'global(workDirectory="{tmp_path}" parser.escapeControlCharactersOnReceive="off" {secured})\n'
            'module(load="imuxsock" SysSock.Use="off")\n'
            f'input(type="imuxsock" Socket="{local}" RateLimit.Interval="0")\n'
            f'action(type="omfwd" target="127.0.0.1" port="{port(syslog, transport)}" protocol="{protocol}" '
            f'template="{template}" {options})\n'
        )
        with running([rsyslogd, "-n", "-f", str(config), "-i", str(tmp_path / "pid")], local):
            log_locally(local, texts)
            check(messages(embedded, syslog, len(texts)), _as_rsyslog_writes(texts, template))


def _as_rsyslog_writes(texts: list[str], template: str) -> list[str]:
    """In RFC 5424 it keeps the space behind the tag as part of the message."""
    return [f" {text}" for text in texts] if "Protocol23" in template else texts


def _needs_driver(name: str) -> None:
    if not list(Path("/usr/lib").glob(f"**/rsyslog/lmnsd_{name}.so")):
        missing(f"rsyslog has no driver {name} here")


@pytest.mark.parametrize(
    ("transport", "destination"),
    [
        ("tcp", 'syslog("127.0.0.1" transport("tcp") port({port}))'),
        ("tcp", 'network("127.0.0.1" transport("tcp") port({port}))'),
        ("udp", 'network("127.0.0.1" transport("udp") port({port}))'),
        (
            "tls",
            'syslog("127.0.0.1" transport("tls") port({port}) tls(ca-file("{ca}") peer-verify(required-trusted)))',
        ),
    ],
)
def test_syslog_ng(
    transport: str, destination: str, syslog: SyslogSource, embedded: EmbeddedBroker, tmp_path: Path
) -> None:
    program, environment = _syslog_ng()
    local, config = tmp_path / "log", tmp_path / "syslog-ng.conf"
    with RunningAgent(embedded.bootstrap_servers, [syslog]):
        where = destination.format(port=port(syslog, transport), ca=tmp_path / "authority/ca.pem")
        config.write_text(
            "@version: current\n"
            "options { use-dns(no); stats-freq(0); };\n"
            f'source local {{ unix-dgram("{local}"); }};\n'
            f"destination agent {{ {where}; }};\n"
            "log { source(local); destination(agent); };\n"
        )
        state = ["-R", f"{tmp_path}/persist", "-p", f"{tmp_path}/pid", "-c", f"{tmp_path}/control"]
        with running([*program, "-F", "--no-caps", "-f", str(config), *state], local, environment):
            log_locally(local, TEXTS)
            check(messages(embedded, syslog, len(TEXTS)), TEXTS)


def _syslog_ng() -> tuple[list[str], dict[str, str]]:
    """As it is installed, or as `make programs` unpacks it."""
    unpacked = SYSLOG_NG / "usr/sbin/syslog-ng"
    if not unpacked.exists():
        return find("syslog-ng"), {}
    libraries = [
        SYSLOG_NG / "usr/lib/syslog-ng",
        *SYSLOG_NG.glob("usr/lib/*-linux-gnu"),
        *SYSLOG_NG.glob("lib/*"),
    ]
    (modules,) = SYSLOG_NG.glob("usr/lib/syslog-ng/[0-9]*")
    return (
        [str(unpacked), "--module-path", str(modules)],
        {"LD_LIBRARY_PATH": ":".join(map(str, libraries)), "PATH": SERVERS},
    )


@pytest.mark.parametrize(
    ("transport", "options"),
    [
        ("udp", ["--udp", "--rfc5424"]),
        ("udp", ["--udp", "--rfc3164"]),
        ("tcp", ["--tcp", "--rfc5424", "--octet-count"]),
        ("tcp", ["--tcp", "--rfc3164"]),
    ],
)
def test_logger(transport: str, options: list[str], syslog: SyslogSource, embedded: EmbeddedBroker) -> None:
    (logger,) = find("logger")
    structured = ["--sd-id", "shop@32473", "--sd-param", 'item="a \\"b\\""'] if "--rfc5424" in options else []
    with RunningAgent(embedded.bootstrap_servers, [syslog]):
        subprocess.run(
            [logger, "--server", "127.0.0.1", "--port", str(port(syslog, transport)), *options, *structured,
             "--tag", "shop", "--id=42", "--priority", "daemon.notice", TEXTS[0]],
            check=True,
            timeout=60,
        )  # fmt: skip
        (found,) = messages(embedded, syslog, 1)
    check([found], TEXTS[:1])
    if structured:
        assert found.data["shop@32473"] == {"item": 'a "b"'}
