"""`barnabas snapshot restore` requires CREATE on the new topics and DESCRIBE_CONFIGS on the cluster."""

from __future__ import annotations

from pathlib import Path

from barnabas.testing import EmbeddedBroker
from tests.cli.access.conftest import port_of
from tests.cli.tiering.conftest import TIERED, Tiered
from tests.support.cli import Cli
from tests.support.sasl import add_user, java_login, properties, sasl_settings
from tests.support.tiering.lost_cluster import Store, produce
from tests.support.waiting import until


def test_without_the_rights_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    store = Store(f"file://{tmp_path}/bucket")
    guard = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    settings = {**sasl_settings(**guard), **store.settings}
    with EmbeddedBroker(settings, data_dir=tmp_path / "data") as broker:
        root = Cli(f"127.0.0.1:{port_of(broker, 'PLAINTEXT')}")
        _fill(broker, root, tmp_path)
        add_user(broker, "carol", "secret")
        file = tmp_path / "carol.properties"
        file.write_text(properties(java_login("SCRAM-SHA-256", "carol", "secret")))
        login = ("-b", f"127.0.0.1:{port_of(broker, 'SASL_PLAINTEXT')}", "--command-config", str(file))
        restore = ("snapshot", "restore", "friday", "--to", "copy", "--store", store.url, *login)
        objects = sorted(tmp_path.glob("bucket/*/topics/*/*/*"))
        assert "CLUSTER_AUTHORIZATION_FAILED" in root(*restore).err
        root.ok("acls", "allow", "User:carol", "describe_configs", "--cluster")
        until(lambda: "CLUSTER_AUTHORIZATION_FAILED" not in root(*restore).err, "the ACL counts")
        assert "TOPIC_AUTHORIZATION_FAILED" in root(*restore).err
        assert sorted(tmp_path.glob("bucket/*/topics/*/*/*")) == objects
        root.ok("acls", "allow", "User:carol", "create,describe,describe_configs", "--topic", "copy")
        until(lambda: root(*restore).code == 0, "with the rights it is made")


def _fill(broker: EmbeddedBroker, root: Cli, folder: Path) -> None:
    settings = [part for name, value in TIERED.items() for part in ("--set", f"{name}={value}")]
    root.ok("topics", "create", "clicks", *settings)
    broker.port = port_of(broker, "PLAINTEXT")
    produce(broker, "clicks", range(2500))
    tiered = Tiered(broker, folder / "bucket")
    until(lambda: len(tiered.local_segments("clicks")) == 1, "segments leave the disk")
    root.ok("snapshot", "create", "friday", "--topics", "clicks", "--store", tiered.url)
