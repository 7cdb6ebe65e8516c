"""A stopping broker hands over its leaders, but does not wait when it is isolated."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.broker import controlled_shutdown
from barnabas.cluster import FileMetadataStore, LocalMembership, MetadataFollower
from barnabas.cluster.image import EMPTY_IMAGE
from barnabas.replication import BrokerIdentity
from barnabas.testing.files import FaultyFileSystem


@pytest.mark.parametrize(("is_connected", "attempts"), [(False, 1), (True, 2)])
def test_isolated_client_does_not_wait_for_a_controller(
    monkeypatch: pytest.MonkeyPatch, is_connected: bool, attempts: int
) -> None:
    began: list[Any] = []

    async def never(request: Any) -> Any:
        began.append(request)
        await asyncio.Event().wait()

    monkeypatch.setattr(controlled_shutdown, "CUT_OFF_SECONDS", 0.01)
    monkeypatch.setattr(controlled_shutdown, "TIMEOUT_SECONDS", 0.01)
    membership = LocalMembership(lambda: EMPTY_IMAGE)
    monkeypatch.setattr(membership, "is_connected", is_connected)
    shutdown = controlled_shutdown.ControlledShutdown(
        membership,
        MetadataFollower(FileMetadataStore(FaultyFileSystem(), "metadata")),
        identity=lambda: BrokerIdentity(1, 1),
        image=lambda: EMPTY_IMAGE,
        ask_controller=never,
    )
    assert not asyncio.run(shutdown.hand_over())
    assert len(began) == attempts
