"""`barnabas tier quarantine`: lists quarantined segments and deletes them on request."""

from __future__ import annotations

from pathlib import Path

from barnabas.testing import EmbeddedBroker
from barnabas.tiering.objects.layout import parse_partition_prefix
from barnabas.tiering.objects.manifest import Manifest, decode, encode
from barnabas.tiering.objects.manifest_changes import cut
from tests.cli.tiering.conftest import Tiered
from tests.support.cli import Cli
from tests.support.waiting import until

NOW = 1_700_000_000_000


def manifest_in(tiered: Tiered, topic: str) -> Manifest:
    file = tiered.manifest(topic)
    folder = parse_partition_prefix(str(file.parent.relative_to(tiered.bucket)))
    assert folder is not None
    return decode(file.read_bytes(), folder)


def cut_in_half(tiered: Tiered, topic: str) -> Manifest:
    """Simulate an unclean election without the leader, which would not check."""
    before = manifest_in(tiered, topic)
    after = cut(before, before.entries[len(before.entries) // 2].base, NOW)
    tiered.manifest(topic).write_bytes(encode(after))
    return after


def test_quarantined_objects_are_listed_and_stay(cli: Cli, tiered: Tiered) -> None:
    topic = tiered.topic()
    store = ("--store", tiered.url)
    assert f"Nothing of {topic} is in quarantine" in cli.ok("tier", "quarantine", topic, *store).err
    objects = tiered.segments(topic)
    cut_off = cut_in_half(tiered, topic).quarantine
    assert len(cut_off) > 0
    shown = cli.ok("tier", "quarantine", topic, *store, "-o", "json").json
    assert [each["key"] for each in shown["segments"]] == [each.key for each in cut_off]
    assert shown["deleted"] is False
    table = cli.ok("tier", "quarantine", topic, *store)
    assert "--delete deletes them" in table.err
    assert cut_off[0].key in table.out
    assert tiered.segments(topic) == objects


def test_it_is_deleted_by_command(cli: Cli, tiered: Tiered) -> None:
    topic = tiered.topic()
    cut_off = cut_in_half(tiered, topic).quarantine
    command = ("tier", "quarantine", topic, "--store", tiered.url, "--delete")
    refused = cli(*command)
    assert refused.code != 0
    assert manifest_in(tiered, topic).quarantine == cut_off
    cli.ok(*command, "--yes")
    until(lambda: not manifest_in(tiered, topic).quarantine, "it stays in quarantine")
    assert {each.key for each in cut_off} <= {each.key for each in manifest_in(tiered, topic).garbage}
    assert "is in quarantine" in cli.ok(*command, "--yes").err


def test_it_needs_describe_and_the_setting_that_ends_waiting_alter_configs_on_the_topic(
    tmp_path: Path,
) -> None:
    authorizer = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with EmbeddedBroker(data_dir=tmp_path / "data") as open_to_all:
        open_to_all.create_topic("secret")
    with EmbeddedBroker(authorizer, data_dir=tmp_path / "data") as broker:
        cli = Cli(broker.bootstrap_servers)
        (tmp_path / "bucket").mkdir()
        refused = cli(
            "tier", "quarantine", "secret", "--store", f"file://{tmp_path}/bucket", "--delete", "--yes"
        )
        assert (refused.code, "has nothing of topic" in refused.err) == (1, False)
        refused = cli("configs", "set", "topic", "secret", "barnabas.remote.unclean.wait=false")
        assert refused.code == 1
        assert "authorization" in refused.err.lower()
