"""A broker that stops has other leaders elected first, but does not wait if it is cut off."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker import controlled_shutdown
from barnabas.cluster.image import EMPTY_IMAGE


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

    monkeypatch.setattr(controlled_shutdown, "CUT_OFF_SECONDS", 0.01)
    monkeypatch.setattr(controlled_shutdown, "TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr(controlled_shutdown, "_until_others_lead", never)
    broker, membership = Broker(), SimpleNamespace(is_connected=is_connected)
    assert not asyncio.run(controlled_shutdown._hand_over(broker, membership))  # type: ignore[arg-type]
    assert began == [broker] * attempts
