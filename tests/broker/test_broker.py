"""A broker that is not started has all its parts, including those that handlers need."""

import asyncio
import importlib
import pkgutil
import re
from collections.abc import Iterator
from inspect import get_annotations, getsource
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import pytest

from barnabas import handlers
from barnabas.broker.broker import Broker
from barnabas.config.broker import BrokerConfig


def made(folder: Path) -> Broker:
    async def make() -> Broker:
        return Broker(BrokerConfig.load({"log.dirs": str(folder), "listeners": "PLAINTEXT://127.0.0.1:0"}))

    return asyncio.run(make())


def modules_of_handlers() -> list[ModuleType]:
    found = pkgutil.walk_packages(handlers.__path__, handlers.__name__ + ".")
    return [importlib.import_module(module.name) for module in found]


def members(protocol: type) -> Iterator[str]:
    for base in protocol.__mro__:
        if base is not Protocol and getattr(base, "_is_protocol", False):
            names = {*vars(base), *get_annotations(base)}
            yield from (name for name in names if not name.startswith("_"))


@pytest.mark.parametrize("module", modules_of_handlers(), ids=lambda module: module.__name__)
def test_broker_has_the_attributes_that_a_handler_declares(module: ModuleType, tmp_path: Path) -> None:
    broker = made(tmp_path)
    named = set(re.findall(r"\bbroker: ([A-Z]\w*)", getsource(module))) - {"Any"}
    for protocol in (getattr(module, name) for name in named):
        for name in members(protocol):
            assert hasattr(broker, name), (protocol, name)


def test_starting_a_broker_gives_it_no_further_attributes(tmp_path: Path) -> None:
    async def life() -> tuple[set[str], set[str]]:
        broker = Broker(
            BrokerConfig.load({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})
        )
        before: dict[str, Any] = dict(vars(broker))
        await broker.start()
        await broker.stop()
        return set(before), set(vars(broker))

    before, after = asyncio.run(life())
    assert before == after
