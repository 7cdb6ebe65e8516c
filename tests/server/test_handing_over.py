"""Who stops hands over first, but does not wait for those who cannot hear it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cluster.image import EMPTY_IMAGE
from barnabas.server import handing_over
from barnabas.server.handing_over import hand_over


class Broker:
    """One that knows of no controller."""

    image = EMPTY_IMAGE
    node_id = 1
    broker_epoch = 1


@pytest.mark.parametrize(("is_connected", "attempts"), [(False, 1), (True, 2)])
def test_who_is_cut_off_does_not_wait_for_a_controller(
    monkeypatch: pytest.MonkeyPatch, is_connected: bool, attempts: int
) -> None:
    began: list[Any] = []

    async def never(broker: Any) -> None:
        began.append(broker)
        await asyncio.Event().wait()

    monkeypatch.setattr(handing_over, "CUT_OFF_SECONDS", 0.01)
    monkeypatch.setattr(handing_over, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(handing_over, "_until_handed_over", never)
    broker, membership = Broker(), SimpleNamespace(is_connected=is_connected)
    assert not asyncio.run(hand_over(broker, membership))  # type: ignore[arg-type]
    assert began == [broker] * attempts
