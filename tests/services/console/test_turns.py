from __future__ import annotations

from contextlib import ExitStack

import pytest

from barnabas.services.console.errors import BusyError
from barnabas.services.console.turns import ConcurrencyLimit


def test_one_user_cannot_take_all_slots_and_the_total_is_bounded() -> None:
    iterations = ConcurrencyLimit(3, 2, "wait")
    with ExitStack() as held:
        for name in ("alice", "alice", "bob"):
            held.enter_context(iterations.take(name))
        for name in ("alice", "carol"):
            with pytest.raises(BusyError, match="wait"), iterations.take(name):
                pass
    with (
        iterations.take("alice"),
        iterations.take("alice"),
        pytest.raises(BusyError),
        iterations.take("alice"),
    ):
        pass
    assert not iterations._open
