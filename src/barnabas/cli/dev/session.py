"""The services of `barnabas dev` as one session: their addresses, printed once all answer, and the sample data."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas import __version__
from barnabas.cli.dev.sample import CLICKS, ORDERS, RECORDS_PER_SECOND, ShopSample
from barnabas.cli.options import DEFAULT_BOOTSTRAP
from barnabas.client import Address, Client

if TYPE_CHECKING:
    from barnabas.broker import Broker

READY_SECONDS = 30.0  # then the addresses are printed, whether the registry and the console answer or not
POLL_SECONDS = 0.02


@dataclass(frozen=True)
class DevEndpoint:
    """Address of one service; None if its extra is not installed."""

    name: str
    address: Address | None
    note: str = ""

    @property
    def text(self) -> str:
        if self.address is None:
            return self.note
        url = str(self.address) if self.name == "Kafka" else f"http://{self.address}"
        return f"{url}  {self.note}".rstrip()


class DevSession:
    """Prints the addresses once all services answer, then writes the sample. Runs like a companion of the broker."""

    def __init__(
        self,
        endpoints: Sequence[DevEndpoint],
        folder: Path | None,
        with_sample: bool,
        open_browser: bool,
        started: float,
    ) -> None:
        self._endpoints = endpoints
        self._folder = folder
        self._with_sample = with_sample
        self._open_browser = open_browser
        self._started = started
        self._sample: ShopSample | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, broker: Broker) -> DevSession:
        self._task = asyncio.create_task(self._run())
        return self

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._sample is not None:
            await self._sample.stop()

    async def _run(self) -> None:
        kafka, *others = (endpoint.address for endpoint in self._endpoints)
        if self._with_sample:
            self._sample = ShopSample(Client(str(kafka), client_id="barnabas-dev"))
            await self._sample.start()
        await asyncio.gather(*(_wait_until_listening(one) for one in others if one is not None))
        self._print()
        console = others[-1]
        if self._open_browser and console is not None:
            import webbrowser

            await asyncio.to_thread(webbrowser.open, f"http://{console}")

    def _print(self) -> None:
        kept = "deleted at the end; --data DIR keeps it" if self._folder is None else f"in {self._folder}"
        print(f"Barnabas {__version__} for development: no passwords, this machine only. Data is {kept}.\n")
        for endpoint in self._endpoints:
            print(f"  {endpoint.name:<10}{endpoint.text}")
        if self._with_sample:
            print(f"  {'Sample':<10}topics {ORDERS} and {CLICKS}, {RECORDS_PER_SECOND} records a second")
            kafka = str(self._endpoints[0].address)
            where = "" if kafka == DEFAULT_BOOTSTRAP else f" --bootstrap-server {kafka}"
            print(f"\n  barnabas consume {ORDERS}{where}")
            if find_spec("duckdb") is not None:
                print(f'  barnabas sql "select product, sum(amount) from {ORDERS} group by product"{where}')
        print(f"\nReady in {time.monotonic() - self._started:.1f} s. Press Ctrl-C to stop.")
        sys.stdout.flush()


async def _wait_until_listening(listener: Address) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READY_SECONDS):
            while not await _is_listening(listener):  # noqa: ASYNC110 - another process, not an event
                await asyncio.sleep(POLL_SECONDS)


async def _is_listening(listener: Address) -> bool:
    try:
        _, writer = await asyncio.open_connection(listener.host, listener.port)
    except OSError:
        return False
    writer.close()
    return True
