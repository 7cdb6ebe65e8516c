"""Users of a cluster in ZooKeeper, unreadable for other clients."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.security import offline
from barnabas.cluster.image import ScramUser
from barnabas.cluster.zookeeper.types import ZooKeeperUnusableError
from barnabas.common.errors import KafkaError
from barnabas.config.broker import BrokerConfig
from barnabas.security.authn.credentials import ScramMechanism
from barnabas.security.authn.scram import matches
from barnabas.testing import EmbeddedBroker
from tests.cluster.zookeepers import session
from tests.support.cli import Cli

DIGEST = "brokers:their secret"
PROTECTED = {"zookeeper.set.acl": "true", "barnabas.zookeeper.digest": DIGEST}


def config(root: str, **more: str) -> BrokerConfig:
    return BrokerConfig.load({"zookeeper.connect": root, "zookeeper.session.timeout.ms": "3000", **more})


def command(root: str, *arguments: str, settings: dict[str, str]) -> Any:
    pairs = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    return Cli("127.0.0.1:1")(*arguments, "--zookeeper", root, *pairs)


def test_users_are_rejected_if_others_could_read_them(root: str) -> None:
    for settings in ({}, {"zookeeper.set.acl": "true"}, {"barnabas.zookeeper.digest": DIGEST}):
        ended = command(root, "users", "create", "alice", settings=settings)
        assert ended.code == 1
        assert "zookeeper.set.acl=true" in ended.err
        assert "their secret" not in ended.err
        with pytest.raises(KafkaError, match="readable by every client of ZooKeeper"):
            offline.set_password(config(root, **settings), "alice", "secret", list(ScramMechanism), 4096)


def test_the_first_users_of_a_cluster_are_made_before_its_brokers_start(root: str, tmp_path: Path) -> None:
    made = command(root, "users", "create", "broker", settings=PROTECTED)
    password = made.out.strip()
    assert made.code == 0, made
    listed = command(root, "users", "list", "-o", "json", settings=PROTECTED)
    assert [user["user"] for user in listed.json] == ["broker"]
    settings = {"zookeeper.connect": root, "zookeeper.session.timeout.ms": "3000", **PROTECTED}
    with EmbeddedBroker(data_dir=tmp_path / "data", settings=settings) as running:
        kept = running.broker.image.scram_credentials[ScramUser("broker", 2)]
        assert matches(kept, ScramMechanism.SHA_512, password)
        refused = command(
            root,
            "users",
            "delete",
            "broker",
            "--yes",
            settings={**PROTECTED, "zookeeper.session.timeout.ms": "1000"},
        )
        assert refused.code == 1
        assert "--bootstrap-server" in refused.err
    asyncio.run(_nobody_else_reads(root))


async def _nobody_else_reads(root: str) -> None:
    async with session(root) as stranger:
        for name in await stranger.children("/barnabas/log"):
            with pytest.raises(ZooKeeperUnusableError):
                await stranger.get(f"/barnabas/log/{name}")


def test_existing_nodes_of_a_cluster_are_protected_by_a_command(root: str, tmp_path: Path) -> None:
    open_settings = {"zookeeper.connect": root, "zookeeper.session.timeout.ms": "3000"}
    with EmbeddedBroker(data_dir=tmp_path / "data", settings=open_settings) as running:
        running.create_topic("orders")
    ended = command(root, "cluster", "secure", settings={})
    assert (ended.code, "zookeeper.set.acl=true" in ended.err) == (1, True)
    ended = command(root, "cluster", "secure", "-o", "json", settings=PROTECTED)
    assert ended.code == 0, ended
    assert ended.json["nodes"] > 10
    asyncio.run(_nobody_else_reads(root))
    asyncio.run(_nobody_else_writes(root))
    with EmbeddedBroker(data_dir=tmp_path / "data", settings={**open_settings, **PROTECTED}) as running:
        assert "orders" in running.broker.image.topics


async def _nobody_else_writes(root: str) -> None:
    async with session(root) as stranger:
        assert b"version" in (await stranger.get("/cluster/id")).data
        for path in ("/controller_epoch", "/barnabas", "/cluster/id"):
            with pytest.raises(ZooKeeperUnusableError):
                await stranger.set(path, b"mischief")
        with pytest.raises(ZooKeeperUnusableError):
            await stranger.create("/brokers/ids/666", b"{}")
