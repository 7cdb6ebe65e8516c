"""Every protocol of a handler is checked against the broker."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import barnabas.handlers
from tools import handler_needs

MOST = 42
"""Use the protocol of the family before adding another."""
HANDLERS = Path(barnabas.handlers.__path__[0])


def test_the_protocol_of_every_handler_is_checked_against_the_broker() -> None:
    sources = [path.read_text() for path in HANDLERS.rglob("*.py")]
    wanted = {name for source in sources for name in re.findall(r"^class (\w+Needs)\(", source, re.MULTILINE)}
    assert wanted
    checked = inspect.getsource(handler_needs.check)
    assert {name for name in wanted if f": {name} = broker" not in checked} == set()


def test_handlers_have_one_protocol_per_family() -> None:
    checked = inspect.getsource(handler_needs.check)
    assert len(re.findall(r": \w+ = broker", checked)) <= MOST
