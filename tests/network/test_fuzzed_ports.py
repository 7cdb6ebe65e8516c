"""Extreme requests to every port with another protocol (tests/fuzz/ports; `make fuzz-ports`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.ports.process import PORTS, Case, Port, open_port
from tests.fuzz.ports.running import TRIES, PortRun
from tests.fuzz.ports.watched import MUTANT

SEED = 1
CASES = 30

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def mutant() -> Iterator[Port]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(MUTANT, "true")
        with open_port("http") as port:
            yield port


@pytest.mark.parametrize("port", PORTS)
def test_a_port_takes_extreme_requests_and_serves_others(port: str) -> None:
    findings = PortRun(port, SEED).run(CASES)
    assert findings.failures == {}, "\n".join(findings.summary())
    assert findings.cases == CASES


@pytest.mark.parametrize(
    ("body", "kinds"),
    [("loop", {"loop"}), ("memory", {"memory"}), ("error", {"error", "log"}), ("sound", set())],
)
def test_a_defect_is_found(mutant: Port, body: str, kinds: set[str]) -> None:
    head = f"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: {mutant.authorization}\r\n"
    lines = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    found = PortRun("http", SEED).judged(mutant, Case(body, [lines.encode()]))
    assert kinds <= {failure.kind for failure in found}
    assert kinds or not found


def test_tiny_chunks_are_read_in_steps(mutant: Port) -> None:
    head = f"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: {mutant.authorization}\r\n"
    chunks = b"1\r\n0\r\n" * 40_000 + b"0\r\n\r\n"
    case = Case("chunks of a byte", [head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunks])
    tries = [PortRun("http", SEED).judged(mutant, case) for _ in range(TRIES)]
    assert [] in tries, tries


def test_api_documentation_of_the_console_does_not_block() -> None:
    with open_port("console") as port:
        lines = ("GET /api/v1/api HTTP/1.1", "Host: localhost", f"Authorization: {port.authorization}")
        case = Case("the API's own page", [("\r\n".join(lines) + "\r\n\r\n").encode()])
        tries = [PortRun("console", SEED).judged(port, case) for _ in range(TRIES)]
    assert [] in tries, tries


def test_a_body_that_is_not_http_leaves_no_traceback(mutant: Port) -> None:
    head = f"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: {mutant.authorization}\r\n"
    lines = head + "Transfer-Encoding: chunked\r\n\r\n1\r\n[\r\n-1\r\n"
    assert PortRun("http", SEED).judged(mutant, Case("a chunk of -1 bytes", [lines.encode()])) == []
