"""kafka-go's SASL and SCRAM test suites, in a network namespace: their addresses are fixed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from barnabas.testing import EmbeddedBroker
from tests.peers.peer import FOLDER
from tests.support.programs import PROJECT_ROOT

pytestmark = pytest.mark.extended

SUITE = FOLDER / "go" / "kafkago.test"
SASL_SUITE = FOLDER / "go" / "kafkago-sasl.test"
LISTENERS = "SASL_PLAINTEXT://127.0.0.1:9093,PLAINTEXT://127.0.0.1:9092"
# Users and passwords of the tests; KAFKA_VERSION selects one SCRAM user for each mechanism.
USERS = {
    "adminplain": "admin-secret",
    "adminscram256": "admin-secret-256",
    "adminscram512": "admin-secret-512",
}
ENVIRONMENT = {"KAFKA_VERSION": "4.0.0"}
EXPECTED = (
    "TestAlterUserScramCredentials",
    "TestDescribeUserScramCredentials",
    "TestUnsupportedSASLMechanism",
    "TestSASL",
    *(
        f"TestSASL/{mechanism}_{case}"
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        for case in ("success", "failure", "is_reusable")
    ),
)


def test_the_scram_tests_of_kafka_go_pass() -> None:
    if not SASL_SUITE.exists():
        pytest.skip("kafka-go's tests are not built: run `make peers`")
    script = f"ip link set lo up && exec {sys.executable} -m tests.peers.test_kafka_go_suite"
    command = ["unshare", "--net", "--map-root-user", "sh", "-c", script]
    done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = {line.split()[2] for line in done.stdout.splitlines() if line.lstrip().startswith("--- PASS:")}
    assert passed >= set(EXPECTED)


def main() -> int:
    """Run both suites with a broker on their addresses; in the namespace."""
    with EmbeddedBroker({"listeners": LISTENERS}, security="SASL_PLAINTEXT", users=USERS):
        commands = [[str(SUITE), "-test.v", "-test.run", "SCRAM|Scram|SASL"], [str(SASL_SUITE), "-test.v"]]
        return max(
            subprocess.run(command, env={**os.environ, **ENVIRONMENT}, check=False).returncode
            for command in commands
        )


if __name__ == "__main__":
    sys.exit(main())
