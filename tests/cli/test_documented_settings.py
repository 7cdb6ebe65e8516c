"""The complete server.properties of docs/security.md starts a secure broker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin

from tests.support.certificates import Authority
from tests.support.programs import free_port
from tests.support.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BARNABAS = [sys.executable, "-m", "barnabas"]


def documented(folder: Path, port: int) -> str:
    (block,) = re.findall(r"```properties\n(.*?)```", PAGE.read_text(), re.DOTALL)
    replacements = {
        "/var/lib/barnabas": str(folder / "data"),
        "/var/log/barnabas": str(folder),
        "/etc/barnabas": str(folder),
        "0.0.0.0:9093": f"127.0.0.1:{port}",
        "kafka.example.org:9093": f"127.0.0.1:{port}",
        "127.0.0.1:9100": "127.0.0.1:0",
    }
    for documented_value, value in replacements.items():
        assert documented_value in block
        block = block.replace(documented_value, value)
    return str(block)


def test_the_documented_settings_serve_users_over_tls_and_refuse_others(tmp_path: Path) -> None:
    authority, port = Authority(), free_port()
    signed = authority.sign("broker", "127.0.0.1")
    (tmp_path / "broker.pem").write_text(signed.key_pem() + signed.certificate_pem)
    (tmp_path / "ca.pem").write_text(authority.pem)
    (tmp_path / "admin.password").write_text("a long password\n")
    config = tmp_path / "server.properties"
    config.write_text(documented(tmp_path, port))
    user = ["users", "create", "admin", "--data", str(tmp_path / "data")]
    subprocess.run(
        [*BARNABAS, *user, "--password-file", str(tmp_path / "admin.password")], check=True, timeout=60
    )
    with subprocess.Popen([*BARNABAS, "serve", "--config", str(config)], stdout=subprocess.PIPE) as broker:
        try:
            assert broker.stdout is not None
            assert broker.stdout.readline().startswith(b"Barnabas is ready on ")
            client: dict[str, str | int | float | bool] = {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(tmp_path / "ca.pem"),
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "admin",
                "sasl.password": "a long password",
            }
            assert confluent_kafka.admin.AdminClient(client).list_topics(timeout=30).brokers
            refused: list[confluent_kafka.KafkaError] = []
            refused_client = confluent_kafka.Producer(
                {**client, "sasl.password": "wrong", "error_cb": refused.append}
            )
            until(lambda: refused_client.poll(0.1) or refused, "the wrong password is refused")
            assert refused[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
            until((tmp_path / "audit.log").exists, "the login is in the audit log")
        finally:
            broker.terminate()
